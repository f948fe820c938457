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
    // A link, not a copy: while another thread forks, its child holds the copy open for writing, and executing it fails with "Text file busy".
    std::os::unix::fs::symlink(cargo_bin!("palisade"), &plugin).unwrap();
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

#[test]
fn a_policy_of_another_controller_is_listed_and_does_not_count() {
    let folder = crate::folder(&[(
        "x.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: x}\n---
apiVersion: v1\nkind: Pod\nmetadata: {name: b, namespace: x}\n---
apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy
metadata: {name: closed, namespace: x, labels: {networking.k8s.io/policy-controller-name: other}}\nspec: {podSelector: {}}\n",
    )]);
    let ask = |flags: &str| {
        let line = format!("explain -f {} --from x/a --to x/b --port 80 {flags}", folder.path().display());
        let output = palisade(&line).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, said) = ask("");
    assert_eq!(code, Some(0), "{said}");
    for part in ["note[foreign-policy]", "NetworkPolicy x/closed", "is for the controller `other`", "--controller-name other", "x.yaml:13"]
    {
        assert!(said.contains(part), "{part}: not in\n{said}");
    }
    assert_eq!(ask("--controller-name other").0, Some(1));
    assert_eq!(ask("--controller-name third").0, Some(0));
    assert_eq!(ask("--controller-name third --controller-name other").0, Some(1));
    let (code, said) = ask("--controller-name none");
    assert_eq!(code, Some(2));
    assert!(said.contains("switched off"), "{said}");
}
