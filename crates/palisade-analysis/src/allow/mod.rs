//! What to write so that a connection is allowed: the smallest NetworkPolicy, or an addition to one that is there.
//!
//! Each side that denies is opened by itself, every change is tried out with `decide`, and what it opens beside the connection is told by `diff`. A
//! policy that selects pods which no other isolates would close them to everybody else: none is proposed, unless that is asked for.

mod addition;
mod choice;
mod others;

use palisade_engine::{Outcome as Said, Walk, decide, decide_direction};
use palisade_model::{Action, Direction, Flow, Model, Policy, PolicyRef, RuleRef, Tier, Verdict};

pub use self::addition::Addition;
use self::choice::Choosing;
use crate::diff::Diff;
use crate::explain::{Answer, Asked, Explanation, answer_by_family};
use crate::flip::{Edit, Flip, insert, works};

/// What is wanted where there is a choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wish {
    pub form: Form,
    pub isolation: Isolation,
}

/// A policy of its own, or a part of one that is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// An addition to a policy that accepts something already and is about the same pods, else a policy of its own.
    #[default]
    Fitting,
    /// A policy of its own.
    New,
    /// An addition to a policy that isolates the pods, also where it is about others, too.
    Addition,
}

/// Whether pods may be isolated that are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Nobody is closed to anybody.
    #[default]
    AsItIs,
    /// Where only Baseline denies, a NetworkPolicy that is asked before it may isolate.
    MayCome,
}

/// The answer.
#[derive(Debug)]
pub struct Allowance {
    /// Before any change, with a case for each family.
    pub before: Explanation,
    pub outcome: Outcome,
    /// What no NetworkPolicy can change; nothing unless it is useless.
    pub blocks: Vec<Block>,
    /// What to write, in the order of need. Where the outcome is useless, this is what would be needed besides.
    pub changes: Vec<Change>,
    /// The model of `before`, with the changes.
    pub model: Model,
    /// What the changes open and close beside the connection.
    pub others: Diff,
}

/// What came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing has to be written.
    AllowedAlready,
    /// With the changes it is allowed.
    Proposed,
    /// Whatever NetworkPolicy is written, it is not.
    Useless,
}

/// Something that stands in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Where; none if it is nowhere in particular.
    pub side: Option<Blocked>,
    pub why: Why,
}

/// A side of a case that stays closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocked {
    pub direction: Direction,
    /// Its place in the cases.
    pub case: usize,
}

/// Why a side cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// A rule that is asked before any NetworkPolicy denies it.
    Admin {
        rule: RuleRef,
        /// What its owners could write, tried out.
        ask: Option<Box<Edit>>,
    },
    /// A rule of Baseline denies it, and a NetworkPolicy would isolate pods that none isolates.
    Baseline { rule: RuleRef, ask: Option<Box<Edit>> },
    /// The other end is no pod and its address is not known, so that a NetworkPolicy has no words for it.
    NoWords,
    /// The pod carries no label that a policy of its own could select it by.
    NoLabels,
    /// All that could be written was tried, and does not help.
    NothingHelps,
    /// The Service has nobody to send the connection to.
    NoEndpoints,
    /// No packet can go from one end to the other.
    NoFamily(String),
}

/// One policy to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A new one.
    Create {
        policy: Policy,
        /// Directions in which pods are isolated that were not.
        isolates: Vec<Direction>,
    },
    /// One that is there, and more.
    Extend { policy: PolicyRef, additions: Vec<Addition> },
}

/// What to write so that what is asked about is allowed. An error means that the question names something that is not there.
pub fn allow(model: &Model, asked: &Asked, wish: Wish) -> Result<Allowance, String> {
    let before = answer_by_family(model, asked)?;
    let impossible = before.impossible.clone().map(Why::NoFamily).or((before.answer == Answer::NoEndpoints).then_some(Why::NoEndpoints));
    if let Some(why) = impossible {
        let (model, others) = (before.model.clone(), others::nothing());
        return Ok(Allowance {
            before,
            outcome: Outcome::Useless,
            blocks: vec![Block { side: None, why }],
            changes: Vec::new(),
            model,
            others,
        });
    }
    let mut work = Work { wish, model: before.model.clone(), changes: Vec::new(), blocks: Vec::new() };
    // A policy that isolates may close a case that was open before it: then that one is next. Each round opens a side or is the last.
    for _ in 0..=before.cases.len() * 2 {
        if !work.round(&before) {
            break;
        }
    }
    let open = before.cases.iter().all(|it| decide(&work.model, &it.flow).verdict == Verdict::Accept);
    let outcome = match (open, work.changes.is_empty()) {
        (true, true) => Outcome::AllowedAlready,
        (true, false) => Outcome::Proposed,
        (false, true | false) => Outcome::Useless,
    };
    let others = if work.changes.is_empty() { others::nothing() } else { others::opened(&before, &work.model) };
    Ok(Allowance { outcome, blocks: work.blocks, changes: work.changes, model: work.model, others, before })
}

/// A proposal in the making.
#[derive(Debug)]
struct Work {
    wish: Wish,
    model: Model,
    changes: Vec<Change>,
    blocks: Vec<Block>,
}

impl Work {
    /// Opens what is closed; whether something was.
    fn round(&mut self, before: &Explanation) -> bool {
        let mut opened = false;
        for (at, case) in before.cases.iter().enumerate() {
            for direction in Direction::BOTH {
                let walk = decide_direction(&self.model, &case.flow, direction);
                if walk.verdict == Verdict::Accept {
                    continue;
                }
                match self.open(&case.flow, direction, &walk) {
                    Ok(()) => opened = true,
                    Err(why) => self.block(Blocked { direction, case: at }, why),
                }
            }
        }
        opened
    }

    fn block(&mut self, side: Blocked, why: Why) {
        let known = |it: &Block| it.why == why && it.side.is_some_and(|it| it.direction == side.direction);
        if !self.blocks.iter().any(known) {
            self.blocks.push(Block { side: Some(side), why });
        }
    }

    fn open(&mut self, flow: &Flow, direction: Direction, walk: &Walk) -> Result<(), Why> {
        let Some(step) = walk.tiers.last() else { return Err(Why::NothingHelps) };
        let by = || step.rules.last().map(|it| it.rule.clone()).ok_or(Why::NothingHelps);
        match (step.tier, &step.outcome) {
            (Tier::NetworkPolicy, Said::Isolated) => {
                let choices =
                    Choosing { model: &self.model, made: &self.changes, flow, direction }.isolated(self.wish.form, &step.policies)?;
                self.take(flow, direction, choices)
            }
            (Tier::Admin, Said::Matched(Action::Deny)) => {
                let rule = by()?;
                Err(Why::Admin { ask: self.ask(flow, direction, &rule).map(Box::new), rule })
            }
            (Tier::Baseline, Said::Matched(Action::Deny)) => match self.wish.isolation {
                Isolation::AsItIs => {
                    let rule = by()?;
                    Err(Why::Baseline { ask: self.ask(flow, direction, &rule).map(Box::new), rule })
                }
                Isolation::MayCome => {
                    let choice = Choosing { model: &self.model, made: &self.changes, flow, direction }.isolating()?;
                    self.take(flow, direction, vec![choice])
                }
            },
            (Tier::Admin | Tier::NetworkPolicy | Tier::Baseline, _) => Err(Why::NothingHelps),
        }
    }

    /// A rule that the owners of a cluster policy could put before the one that denies.
    fn ask(&self, flow: &Flow, direction: Direction, rule: &RuleRef) -> Option<Edit> {
        let edit = insert(&self.model, flow, direction, rule, Action::Accept)?;
        let alone = decide(&self.model, flow);
        let opposite = match direction {
            Direction::Egress => alone.walks.ingress.verdict,
            Direction::Ingress => alone.walks.egress.verdict,
        };
        // Where the other side denies, too, one edit cannot show that it helps.
        (opposite == Verdict::Accept && works(&self.model, flow, alone.verdict, &Flip { edits: vec![edit.clone()] })).then_some(edit)
    }

    /// The first choice that opens the side.
    fn take(&mut self, flow: &Flow, direction: Direction, choices: Vec<Change>) -> Result<(), Why> {
        for choice in choices {
            let mut changed = self.model.clone();
            put(&mut changed, &choice);
            if decide_direction(&changed, flow, direction).verdict == Verdict::Accept {
                self.model = changed;
                self.note(choice);
                return Ok(());
            }
        }
        Err(Why::NothingHelps)
    }

    /// Additions to one policy are one change; what is added to a policy that is new is part of it.
    fn note(&mut self, choice: Change) {
        let Change::Extend { policy, additions } = choice else { return self.changes.push(choice) };
        for change in &mut self.changes {
            match change {
                Change::Create { policy: created, .. } if created.origin == policy => {
                    return additions.iter().for_each(|it| it.put_into(created));
                }
                Change::Extend { policy: known, additions: before } if *known == policy => return before.extend(additions),
                Change::Create { .. } | Change::Extend { .. } => {}
            }
        }
        self.changes.push(Change::Extend { policy, additions });
    }
}

/// Changes a model.
fn put(model: &mut Model, change: &Change) {
    match change {
        Change::Create { policy, .. } => model.policies.push(policy.clone()),
        Change::Extend { policy, additions } => {
            if let Some(known) = model.policies.iter_mut().find(|it| it.origin == *policy) {
                additions.iter().for_each(|it| it.put_into(known));
            }
        }
    }
}
