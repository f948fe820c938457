//! What else of a network namespace decides where packets go: links, what is attached to them, the tables of others, settings.
//!
//! It is read, never changed, and not judged: whoever knows which links lead to pods says what a fact means.

mod chains;
mod ipvs;
mod links;
mod settings;
mod traffic_control;
mod watch;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::KernelError;

pub use chains::{BaseChain, Flowtable, StrayRule, TableOf};
pub use links::{LinkFacts, Xdp};
pub use traffic_control::{Filter, FilterSide};
pub use watch::{Stirred, Watch};

/// Everything that could lead packets past the hooks of our table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Environment {
    /// By index.
    pub links: Vec<LinkFacts>,
    /// What classifies packets at the links, before or after the tables.
    pub filters: Vec<Filter>,
    /// Base chains of all tables but ours.
    pub chains: Vec<BaseChain>,
    pub flowtables: Vec<Flowtable>,
    /// Rules that take packets away from the hooks or from connection tracking, in all tables.
    pub rules: Vec<StrayRule>,
    /// By name, such as `net/ipv4/ip_forward`. One that the kernel does not have is not there.
    pub settings: BTreeMap<String, String>,
    /// Tables of the older iptables, by `ip` or `ip6` and their name. What is in them is not read.
    pub legacy_tables: Vec<String>,
    /// Virtual servers of IPVS, as many as there are.
    pub virtual_servers: usize,
    /// Each address of a host route or neighbour with the link that it is at.
    pub ways: Vec<Way>,
    /// Each host route, also those that another one to the same address goes before.
    pub host_routes: Vec<Way>,
}

/// By which link an address is reached.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Way {
    pub to: std::net::IpAddr,
    pub link: String,
}

impl Environment {
    /// That of the network namespace of the calling thread.
    pub fn read() -> Result<Environment, KernelError> {
        let links = links::read()?;
        let filters = traffic_control::read(&links)?;
        let chains::Tables { chains, flowtables, rules } = chains::read()?;
        let settings = settings::read(&links)?;
        let (ways, host_routes) = links::ways(&links)?;
        Ok(Environment {
            filters,
            chains,
            flowtables,
            rules,
            settings,
            legacy_tables: settings::legacy_tables()?,
            virtual_servers: ipvs::virtual_servers()?,
            ways,
            host_routes,
            links,
        })
    }
}
