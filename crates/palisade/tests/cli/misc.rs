//! The rest of the face: help, version, completions, the plugin's name.

use snapbox::cmd::{Command, cargo_bin};

use crate::palisade;

#[test]
fn help_has_examples() {
    for line in [
        "--help",
        "explain --help",
        "test --help",
        "matrix --help",
        "diff --help",
        "exposure --help",
        "nft --help",
        "lab --help",
        "lab up --help",
        "lab probe --help",
        "lab exec --help",
        "completions --help",
    ] {
        let help = palisade(line).assert().success();
        assert!(String::from_utf8_lossy(&help.get_output().stdout).contains("Examples:"), "{line}");
    }
}

#[test]
fn version_is_that_of_the_workspace() {
    palisade("--version").assert().success().stdout_eq(format!("palisade {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = palisade(&format!("completions {shell}")).assert().success();
        assert!(String::from_utf8_lossy(&script.get_output().stdout).contains("explain"), "{shell}");
    }
}

#[test]
fn the_binary_answers_as_a_kubectl_plugin() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-palisade");
    std::fs::copy(cargo_bin!("palisade"), &plugin).unwrap();
    let help = Command::new(&plugin).arg("explain").arg("--help").assert().success();
    let help = String::from_utf8_lossy(&help.get_output().stdout).into_owned();
    assert!(help.contains("Usage: kubectl palisade explain"), "{help}");
}

#[test]
fn without_files_or_a_cluster_it_says_what_is_missing() {
    let run = palisade("explain --from a/b --to c/d --port 80").assert().code(2);
    let stderr = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
    assert!(stderr.contains("kubeconfig") && stderr.contains("-f"), "{stderr}");
}
