//! `palisade nft`: the ruleset of a node without a kernel.

use snapbox::file;

use crate::palisade;

const CLUSTER: &str = "scenarios/conformance-admin-egress-tcp/cluster.yaml";

#[test]
fn the_ruleset_of_a_node_reads_well() {
    palisade(&format!("nft render -f {CLUSTER} --node node-1")).assert().success().stdout_eq(file!["golden/ruleset.txt"]);
}

#[test]
fn a_packet_is_walked_through_the_ruleset() {
    let trace = |rest: &str| palisade(&format!("nft trace -f {CLUSTER} --node node-1 {rest}"));
    let dropped = trace("--from 10.244.1.10 --to 10.244.1.30 --port 80").assert().code(1);
    dropped.stdout_eq("dropped on node-1: cnp/egress-tcp#6\n");
    let accepted = trace("--from 10.244.1.10 --to 10.244.1.30 --port 8080").assert().code(0);
    accepted.stdout_eq("accepted on node-1: cnp/egress-tcp#5, then default\n");
    let foreign = trace("--from 192.0.2.1 --to 192.0.2.2 --port 80").assert().code(0);
    foreign.stdout_eq("accepted on node-1: no local pod is concerned\n");
}

#[test]
fn a_packet_that_cannot_be_is_refused() {
    let check = |rest: &str, error: &str| {
        let run = palisade(&format!("nft trace -f {CLUSTER} --node node-1 --from 10.244.1.10 {rest}")).assert().code(2);
        run.stdout_eq("").stderr_eq(format!("error: {error}\n"));
    };
    for protocol in ["tcp", "udp", "sctp"] {
        let error = format!("`--port` is missing; {protocol} has ports, and policies tell them apart");
        check(&format!("--to 10.244.1.30 --protocol {protocol}"), &error);
    }
    check("--to 10.244.1.30 --port 0", "`--port 0`: ports are 1 to 65535");
    check("--to 10.244.1.30 --port 8 --protocol icmp", "`--port 8`: icmp has no ports");
    check("--to fd00::1 --port 80", "`--from 10.244.1.10` and `--to fd00::1` are of two families, and a packet is of one");
    check("--to 10.244.1.30 --protocol gre", "`--protocol gre`: tcp, udp, sctp or icmp");
}

#[test]
fn a_node_that_is_not_there_is_named_with_those_that_are() {
    let run = palisade(&format!("nft render -f {CLUSTER} --node nowhere")).assert().code(2);
    run.stderr_eq("error: no node `nowhere`; there are node-1, node-2\n");
}

#[test]
fn nothing_is_lowered_from_objects_that_were_refused() {
    let run = palisade("nft render -f crates/palisade/tests/cli/slips.yaml --node any").assert().code(2);
    assert!(String::from_utf8_lossy(&run.get_output().stderr).contains("error[unknown-field]"));
}
