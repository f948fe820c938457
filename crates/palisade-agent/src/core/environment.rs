//! Looks for what leads packets past the hooks: when interfaces, filters or tables of others changed, and every few seconds, since nobody tells of settings.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use palisade_kernel::KernelError;
use palisade_model::{Endpoint, EndpointId, Model, NodeId};
use palisade_report::v1;

use crate::core::state::{Effect, Now, Source, State};
use crate::core::work::{Done, Outcome, Token, Work};
use crate::running::Event;
use crate::verify::{EnvironmentKind, judge};

/// The environment is read this often.
const PERIOD: Duration = Duration::from_secs(5);
/// Interfaces that come and go by the hundred are looked at together.
const REST: Duration = Duration::from_millis(200);
/// This many reads in a row may meet tables or interfaces that change meanwhile, before that is reported.
const UNSTEADY: usize = 50;

/// The environment, as far as it is known.
#[derive(Debug)]
pub(crate) struct EnvironmentWatch {
    read: Duration,
    stirred: bool,
    waiting: Option<Token>,
    unsteady: usize,
    /// Names and objects of the findings of the last read.
    told: BTreeSet<(String, String)>,
}

impl EnvironmentWatch {
    pub(crate) fn new(now: Duration) -> EnvironmentWatch {
        EnvironmentWatch { read: now, stirred: true, waiting: None, unsteady: 0, told: BTreeSet::new() }
    }

    /// Something changed.
    pub(crate) fn stir(&mut self) {
        self.stirred = true;
    }

    pub(crate) fn due(&self) -> Option<Duration> {
        self.waiting.is_none().then(|| self.read + if self.stirred { REST } else { PERIOD })
    }

    pub(crate) fn waits_for(&self, token: Token) -> bool {
        self.waiting == Some(token)
    }
}

impl State {
    /// Reads the environment if it is time.
    pub(crate) fn read_environment(&mut self, now: Now) -> Option<Effect> {
        // Before the first change there are no pods to protect.
        self.names.cluster.node()?;
        self.environment.due().filter(|it| *it <= now.since_start)?;
        let token = self.token();
        self.environment.waiting = Some(token);
        self.environment.stirred = false;
        Some(Effect::Work(token, Work::Environment))
    }

    pub(crate) fn environment_read(&mut self, outcome: Outcome, now: Now) -> Vec<Effect> {
        (self.environment.waiting, self.environment.read) = (None, now.since_start);
        let environment = match outcome {
            Ok(Done::Environment(environment)) => environment,
            Ok(_) => return Vec::new(),
            Err(KernelError::Unsteady(_) | KernelError::UnsteadyNetwork { .. }) if self.environment.unsteady < UNSTEADY => {
                self.environment.unsteady += 1;
                self.environment.stirred = true;
                return Vec::new();
            }
            Err(error) => return self.failed(Source::Environment, error.to_string()).into_iter().collect(),
        };
        self.failures.remove(&Source::Environment);
        self.environment.unsteady = 0;
        let (model, links) = self.own_pods();
        let before = std::mem::take(&mut self.environment.told);
        // A pod that leaves takes its interface along before the agent is told.
        let gone = EnvironmentKind::PodWithoutLink.name();
        let bypassing = |it: &v1::VerifyFinding| it.weight == v1::VerifyWeight::Unenforceable && it.name != gone;
        let mut effects = Vec::new();
        for finding in judge(&model, NodeId(0), &links, &environment).into_iter().filter(bypassing) {
            let key = (finding.name.clone(), finding.object.clone());
            let is_new = !before.contains(&key) && self.environment.told.insert(key.clone());
            self.environment.told.insert(key);
            if is_new {
                effects.push(Effect::Report(Event::Bypassed(Box::new(finding))));
            }
        }
        effects
    }

    /// A model of the node's own pods alone, and their links.
    fn own_pods(&self) -> (Model, BTreeMap<EndpointId, String>) {
        let cluster = &self.names.cluster;
        let own = cluster.links().iter().filter_map(|(id, link)| {
            let pod = cluster.model().endpoint(*id).filter(|it| it.node == cluster.node())?;
            Some((Endpoint { node: Some(NodeId(0)), ..pod.clone() }, link.clone()))
        });
        let (pods, links): (Vec<Endpoint>, Vec<String>) = own.unzip();
        let links = links.into_iter().enumerate().map(|(at, link)| (EndpointId(at), link)).collect();
        (Model { endpoints: pods.into(), ..Model::default() }, links)
    }
}
