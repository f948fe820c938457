//! Expectations: sentences about who reaches whom, each held against the policies.
//!
//! `parse` reads sentences, `run` and `run_all` say whether they hold. What the sentences mean:
//!
//! - A set without bounds (`nothing`, `everything`, the rest of `only`) is all pods and all addresses outside the cluster. Nodes are not
//!   in it, nor the pods on their network: a kubelet must reach its pods. A node is tested only where the sentence names it.
//! - Addresses outside stand for their kind: one for each region that the CIDRs in use (and their exceptions, and those of the sentence)
//!   cut out of each family. Pods whose addresses were not read are taken to have both families.
//! - A sentence without ports speaks of every port of TCP, UDP and SCTP, and of ICMP: one port is asked for each interval that the
//!   policies at either end tell apart, and one that they do not mention. With a Service it speaks of every port of the Service.
//! - A pod is not tested against itself. What stands for all pods of a workload is tested: one pod of it against another.
//! - Labels mean any pod that has them: those that were read, and one that need not exist.
//! - What matches nothing fails. A test that cannot fail is worse than none.
//!
//! Every verdict comes from `palisade_engine::decide`, once for all the ends that policy cannot tell apart.

mod check;
mod classes;
mod file;
mod ground;
mod member;
mod outside;
mod ports;
mod sentence;
mod sets;
mod verdicts;

#[cfg(test)]
mod tests;

use ipnet::IpNet;
use palisade_model::{Diagnostic, Location, Model, PortProtocol, Protocol, Verdict};

use crate::explain::Asked;
use crate::party::Party;
use crate::resolve::PortAsked;

/// One sentence of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// The title of the entry it stands in.
    pub name: Option<String>,
    /// The sentence as written.
    pub text: String,
    pub location: Location,
    pub claim: Claim,
}

/// What a sentence claims: all of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub parts: Vec<Part>,
}

/// Every end of `from` gets this verdict against every end of `to`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub from: Group,
    pub to: Group,
    pub ports: Ports,
    /// `Accept` or `Deny`.
    pub wanted: Verdict,
}

/// A set of ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Group {
    /// These.
    Of(Vec<Member>),
    /// All pods and everything outside, without these.
    AllBut(Vec<Member>),
}

/// One member of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// What a person can name.
    Party(Party),
    /// Pods by a pattern, in which `*` stands for any text. The name is that of the pod or of its workload.
    Pods { namespace: String, name: String },
    /// Addresses outside of the cluster that are in this block.
    Network(IpNet),
    /// All addresses outside of the cluster.
    External,
}

/// Which traffic a sentence speaks of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    /// It does not say: all of it.
    NotSaid,
    /// These.
    Of(Vec<PortSpec>),
}

/// One port of a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortSpec {
    /// `tcp`: every port of a protocol.
    Every(PortProtocol),
    /// `tcp/80`, `tcp/http`, `icmp`.
    One { protocol: Protocol, port: PortAsked },
}

/// What became of one expectation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub result: Held,
}

/// Whether an expectation holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Held {
    Yes {
        /// Pairs of classes that were asked about.
        checked: usize,
        /// Pairs of ends that they stand for. All addresses outside that no policy tells apart are one end.
        pairs: u64,
    },
    No {
        /// A few connections that are not as the sentence says.
        counterexamples: Vec<Counterexample>,
        /// How many more there are: pairs of ends, once for each port that was asked.
        more: u64,
    },
    /// It fails, because it speaks of nothing.
    MatchesNothing {
        why: String,
    },
    CannotTell {
        why: String,
    },
}

/// One connection that is not as the sentence says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// The question to explain.
    pub asked: Asked,
    /// What to call the source.
    pub from: String,
    /// What to call the destination.
    pub to: String,
    pub verdict: Verdict,
    pub wanted: Verdict,
}

/// Reads the sentences of a file. Those that can be read are there, whatever is wrong with others.
pub fn parse(file: &str, text: &str) -> (Vec<Expectation>, Vec<Diagnostic>) {
    file::read(file, text)
}

/// Holds one expectation against the model.
pub fn run(model: &Model, expectation: &Expectation) -> Outcome {
    check::outcome(&mut ground::Ground::new(model), &expectation.claim)
}

/// Holds many expectations against the model, in their order. What the model is made ready for is done once.
pub fn run_all(model: &Model, expectations: &[Expectation]) -> Vec<Outcome> {
    let mut ground = ground::Ground::new(model);
    expectations.iter().map(|expectation| check::outcome(&mut ground, &expectation.claim)).collect()
}
