//! Exposure for people: the worst first, workloads that are exposed alike in one.

use std::collections::BTreeMap;

use palisade_analysis::exposure::Exposures;
use palisade_analysis::matrix::Name;

use crate::exposure::{by_name, newcomer, outside};
use crate::matrix_text::{Crowd, wrapped};
use crate::text::{BOLD, DIM, painted};
use crate::v1;

/// How many ways to label a newcomer are told; JSON has all of them.
const LABELLED: usize = 8;

/// How bad an exposure is; the least comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Unprotected,
    Outside,
    WholeCluster,
    NewNamespaces,
    Labelled,
    Closed,
}

/// The text of a report, direction by direction. Rows may have been left out of it: whether a namespace is there as a whole, only all its workloads tell.
pub fn exposure(report: &v1::Exposure, exposures: &Exposures) -> String {
    let mut out = String::new();
    let crowd = Crowd::of(exposures.everyone.iter().map(|(name, namespace)| (name.as_str(), namespace.as_ref())));
    for (direction, heading) in [("ingress", "ingress: who may reach them"), ("egress", "egress: whom they may reach")] {
        let mut groups: BTreeMap<(Rank, &v1::Exposed), Vec<&v1::ExposureRow>> = BTreeMap::new();
        for row in report.rows.iter().filter(|it| it.exposed.direction == direction) {
            groups.entry((rank(&row.exposed), &row.exposed)).or_default().push(row);
        }
        if groups.is_empty() {
            continue;
        }
        out.push_str(&format!("{}{}\n", if out.is_empty() { "" } else { "\n" }, painted(BOLD, heading)));
        for ((rank, exposed), rows) in groups {
            let names: Vec<Name<'_>> = rows.iter().map(|it| Name::Unit { name: &it.workload, namespace: &it.namespace }).collect();
            let said = crowd.listed(&names);
            let many = if said.len() > 1 { format!(" ({})", rows.len()) } else { String::new() };
            out.push_str(&format!("\n{}{many}\n", painted(BOLD, wrapped(&said, 2).trim_end())));
            out.push_str(&body(rank, exposed));
        }
    }
    if out.is_empty() {
        out.push_str("no such workloads\n");
    }
    for qualification in &report.qualifications {
        out.push_str(&format!("\nnote: {qualification}\n"));
    }
    out
}

fn rank(it: &v1::Exposed) -> Rank {
    let open = |it: &v1::ExposureTraffic| !it.allowed.is_empty();
    match () {
        () if it.protected_by != "policy" => Rank::Unprotected,
        () if !it.outside.is_empty() || !it.depends_on_dns.is_empty() => Rank::Outside,
        () if it.whole_cluster.as_ref().is_some_and(open) => Rank::WholeCluster,
        () if open(&it.any_new_namespace) || open(&it.unlabelled_new_namespace) => Rank::NewNamespaces,
        () if !it.labelled_new_namespaces.is_empty() => Rank::Labelled,
        () => Rank::Closed,
    }
}

fn body(rank: Rank, it: &v1::Exposed) -> String {
    let mut lines: Vec<(&str, String)> = Vec::new();
    match it.protected_by.as_str() {
        "nothing" => lines.push(("protected by", "nothing".to_owned())),
        "some pods" => lines.push(("protected by", format!("nothing, some pods; the others by {}", it.tiers.join(", ")))),
        _ => lines.push(("tiers", it.tiers.join(", "))),
    }
    for (open, ranges) in outside(&it.outside) {
        lines.push(("outside", format!("{ranges}: {}", traffic(open))));
    }
    lines.extend(by_name(it).map(|it| ("outside", it)));
    let whole = it.whole_cluster.iter().filter(|it| !it.allowed.is_empty());
    lines.extend(whole.map(|it| ("whole cluster", traffic(it))));
    let (any, unlabelled) = (&it.any_new_namespace, &it.unlabelled_new_namespace);
    if !any.allowed.is_empty() {
        lines.push(("new namespaces", format!("any: {}", traffic(any))));
    }
    if unlabelled.allowed != any.allowed {
        lines.push(("new namespaces", format!("without labels: {}", traffic(unlabelled))));
    }
    for labelled in it.labelled_new_namespaces.iter().take(LABELLED) {
        lines.push(("new namespaces", format!("{}: {}", newcomer(labelled), traffic(&labelled.traffic))));
    }
    if let Some(more @ 1..) = it.labelled_new_namespaces.len().checked_sub(LABELLED) {
        lines.push(("", format!("and {more} more ways to label one, which -o json lists")));
    }
    if rank == Rank::Closed {
        lines.push(("open to", "nobody but pods that policies name".to_owned()));
    }
    let mut before = "";
    let mut out = String::new();
    for (what, said) in lines {
        let shown = if what == before { "" } else { what };
        before = what;
        out.push_str(&format!("  {}  {said}\n", painted(DIM, &format!("{shown:<14}"))));
    }
    out
}

/// `TCP 80 by NetworkPolicy`; what nobody decides is by default.
fn traffic(it: &v1::ExposureTraffic) -> String {
    format!("{} {}", it.connections, painted(DIM, &format!("by {}", it.let_by.join(", "))))
}
