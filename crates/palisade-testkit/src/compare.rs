//! One question to every judge. Where [`crate::check`] knows the answer, here only their agreement counts.

use std::fmt;

use palisade_analysis::{Asked, Case, answer, answer_by_family};
use palisade_engine::Reach;
use palisade_model::{Direction, Model, Path, Verdict};

use crate::check::{asked, expectation, primary};
use crate::objects::Objects;
use crate::raw_judge;
use crate::scenario::{Expect, Party, RawProtocol};

/// A connection to ask about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    pub from: Party,
    pub to: Party,
    pub protocol: RawProtocol,
    pub port: Option<u16>,
}

/// The judges do not agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub between: Between,
    /// What each says.
    pub text: String,
}

/// Who disagrees about what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Between {
    SpecAndEngine,
    /// One flow alone, and the whole cluster at once.
    DecideAndReach,
    RawJudgeAndEngine,
    /// One of them can be asked and the other cannot.
    Askable,
    /// A policy that should count was refused.
    Refused,
}

/// Asks the specification and the engine, also by their reasons. The number of connections that were judged.
pub fn spec_and_engine(model: &Model, reach: &mut Reach<'_>, question: &Question) -> Result<usize, Difference> {
    let Ok(explanation) = answer_by_family(model, &question.asked()) else { return Ok(0) };
    explanation.cases.iter().try_for_each(|case| same_in_both(&explanation.model, case))?;
    // A pod that is only asked about was not compiled.
    if explanation.model.endpoints.len() == model.endpoints.len() {
        explanation.cases.iter().try_for_each(|case| same_by_reach(reach, case))?;
    }
    Ok(explanation.cases.len())
}

/// Whether the whole cluster at once says the same as one flow alone.
pub fn same_by_reach(reach: &mut Reach<'_>, case: &Case) -> Result<(), Difference> {
    let flow = &case.flow;
    // What a Service leads back to itself is no pair of ends.
    if flow.path == Path::Service && flow.from.place == flow.to.place {
        return Ok(());
    }
    let differ = |text: String| Err(Difference { between: Between::DecideAndReach, text });
    let Some(reached) = reach.between(&flow.from, &flow.to) else {
        // Ends without a family in common are judged all the same, one of them without an address.
        let nowhere = flow.from.address.is_none() || flow.to.address.is_none();
        return if nowhere { Ok(()) } else { differ(format!("reach does not know {flow:?}")) };
    };
    let has = |set| reach.sets().contains(set, flow.protocol, flow.port);
    let verdict = match (has(reached.allowed), has(reached.depends_on_dns)) {
        (true, _) => Verdict::Accept,
        (false, true) => Verdict::DependsOnDns,
        (false, false) => Verdict::Deny,
    };
    if verdict == case.decision.verdict { Ok(()) } else { differ(format!("reach says {verdict:?}, decide {:?}", case.decision.verdict)) }
}

/// Asks all three. The number of connections that were judged.
pub fn every_judge(model: &Model, reach: &mut Reach<'_>, objects: &Objects, question: &Question) -> Result<usize, Difference> {
    let judged = spec_and_engine(model, reach, question)?;
    let raw = raw_judge::judge(objects, &question.from, &question.to, question.protocol, question.port);
    let product = answer(model, &question.asked()).map(|explanation| {
        let verdicts = primary(&explanation).into_iter().map(|case| expectation(case.decision.verdict));
        verdicts.collect::<Vec<Expect>>()
    });
    let differ = |between| Err(Difference { between, text: format!("the raw judge says {raw:?}, the engine {product:?}") });
    match (&raw, &product) {
        // What has no endpoint or is not there cannot be asked about; each says so in its own way.
        (Ok(Expect::None) | Err(_), Err(_)) => Ok(judged),
        (Ok(Expect::Accept | Expect::Deny | Expect::DependsOnDns), Err(_)) => differ(Between::Askable),
        (Ok(raw), Ok(verdicts)) if *raw == Expect::None && verdicts.is_empty() => Ok(judged),
        (Ok(raw), Ok(verdicts)) if !verdicts.is_empty() && verdicts.iter().all(|it| it == raw) => Ok(judged),
        (Ok(_), Ok(_)) => differ(Between::RawJudgeAndEngine),
        // The raw judge has one word for all endpoints of a Service, so it has none where they differ.
        (Err(_), Ok(verdicts)) if verdicts.windows(2).any(|pair| pair.first() != pair.last()) => Ok(judged),
        (Err(_), Ok(_)) => differ(Between::Askable),
    }
}

fn same_in_both(model: &Model, case: &Case) -> Result<(), Difference> {
    let judgement = palisade_spec::judge(model, &case.flow);
    let mut text = Vec::new();
    for direction in Direction::BOTH {
        let (verdict, reason) = judgement.directions.of(direction);
        let walk = case.decision.walks.of(direction);
        if (*verdict, reason) != (walk.verdict, &walk.reason) {
            text.push(format!("{direction}: the spec says {verdict:?} by {reason}, the engine {:?} by {}", walk.verdict, walk.reason));
        }
    }
    if judgement.verdict != case.decision.verdict {
        text.push(format!("the spec says {:?}, the engine {:?}", judgement.verdict, case.decision.verdict));
    }
    if text.is_empty() { Ok(()) } else { Err(Difference { between: Between::SpecAndEngine, text: text.join("; ") }) }
}

impl Question {
    fn asked(&self) -> Asked {
        asked(&self.from, &self.to, self.protocol, self.port)
    }
}

/// The first half of a line of `expect.txt`.
impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let protocol = match self.protocol {
            RawProtocol::Tcp => "tcp".to_owned(),
            RawProtocol::Udp => "udp".to_owned(),
            RawProtocol::Sctp => "sctp".to_owned(),
            RawProtocol::Icmp => "icmp".to_owned(),
            RawProtocol::Other(number) => number.to_string(),
        };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        write!(f, "{} -> {}  {protocol}{port}", shown(&self.from), shown(&self.to))
    }
}

fn shown(party: &Party) -> String {
    match party {
        Party::Pod { namespace, name } => format!("{namespace}/{name}"),
        Party::Node(name) => format!("node/{name}"),
        Party::Address(address) => address.to_string(),
        Party::Service { namespace, name } => format!("svc/{namespace}/{name}"),
    }
}
