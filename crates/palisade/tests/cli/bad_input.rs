//! Input that is wrong: named by file, line, column and field; the rest still counts; no verdict where one would be a guess.

use snapbox::file;

use crate::{folder, palisade};

const POLICY: &str = "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: closed, namespace: a}
spec: {podSelector: {}}
";

#[test]
fn a_misspelt_field_refuses_the_object_and_the_verdict_is_unknown() {
    let slips = "explain -f crates/palisade/tests/cli/slips.yaml --from a/app=x --to a/app=y --port 80";
    palisade(slips).assert().code(2).stdout_eq(file!["golden/slips.txt"]).stderr_eq(file!["golden/slips-noticed.txt"]);
}

#[test]
fn an_object_of_two_shapes_is_refused_with_both_readings() {
    let mixed = "explain -f crates/palisade/tests/cli/two-shapes.yaml --from a/app=x --to a/app=y --port 80";
    palisade(mixed).assert().code(2).stdout_eq(file!["golden/two-shapes.txt"]).stderr_eq(file!["golden/two-shapes-noticed.txt"]);
}

#[test]
fn a_newer_kind_of_peer_fails_closed_and_the_verdict_stands() {
    let newer = "explain -f crates/palisade/tests/cli/newer.yaml --from a/app=x --to b/app=z --port 80";
    palisade(newer).assert().code(1).stdout_eq(file!["golden/newer.txt"]).stderr_eq(file!["golden/newer-noticed.txt"]);
}

#[test]
fn a_broken_document_is_named_and_the_others_count() {
    let broken = format!("{POLICY}---\nkind: [broken\n---\n{}", POLICY.replace("closed", "second"));
    let folder = folder(&[("all.yaml", &broken)]);
    let run = palisade("explain --from a/app=x --to a/app=y --port 80 -f").arg(folder.path()).assert().code(2);
    let output = run.get_output();
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(stdout.starts_with("UNKNOWN") && stdout.contains("would be denied"), "{stdout}");
    assert!(stdout.contains("`closed`, `second`"), "both good documents count: {stdout}");
    assert!(stderr.contains("all.yaml:6:7: error[unreadable-document]"), "{stderr}");
}

#[test]
fn missing_files_binary_junk_and_loops_are_named() {
    let folder = folder(&[("good.yaml", POLICY), ("empty.yaml", "")]);
    std::fs::write(folder.path().join("junk.yaml"), [0u8, 159, 146, 150]).unwrap();
    std::os::unix::fs::symlink(folder.path(), folder.path().join("loop")).unwrap();
    let run = palisade("explain --from a/app=x --to a/app=y --port 80 -f /nowhere/at/all.yaml -f").arg(folder.path()).assert().code(2);
    let stderr = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
    for code in ["error[missing-file]", "error[not-text]", "warning[symlink-loop]"] {
        assert!(stderr.contains(code), "{code} in {stderr}");
    }
}

#[test]
fn ten_thousand_documents_are_all_read() {
    let many: String = (0..10_000).map(|at| format!("---\n{}", POLICY.replace("closed", &format!("p{at}")))).collect();
    let folder = folder(&[("many.yaml", &many)]);
    let run = palisade("explain -o json --from a/app=x --to a/app=y --port 80 -f").arg(folder.path()).assert().code(1);
    let answer: serde_json::Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    let tiers = answer["cases"][0]["ingress"]["tiers"].as_array().unwrap();
    assert_eq!(tiers[1]["policies"].as_array().unwrap().len(), 10_000);
}

#[test]
fn arguments_that_mean_nothing_say_what_to_write() {
    for (line, message) in [
        (
            "explain -f examples/shop --from shop/web --to shop/db",
            "error: `--port` is missing; tcp has ports, and policies tell them apart\n",
        ),
        ("explain -f examples/shop --from shop/web --to shop/db --port 70000", "error: `--port 70000`: ports are 1 to 65535, or a name\n"),
        (
            "explain -f examples/shop --from shop/web --to shop/db --port udp/53",
            "error: `--port udp/53`: write `--protocol udp --port 53`\n",
        ),
        (
            "explain -f examples/shop --from shop/web --to shop/db --port 53/UDP",
            "error: `--port 53/UDP`: write `--protocol udp --port 53`\n",
        ),
        (
            "explain -f examples/shop --from shop/web --to shop/db --port 1 --protocol gre",
            "error: `--protocol gre`: tcp, udp, sctp or icmp\n",
        ),
    ] {
        palisade(line).assert().code(2).stdout_eq("").stderr_eq(message);
    }
}
