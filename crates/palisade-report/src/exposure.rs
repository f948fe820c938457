//! From what was found out about exposure to the report that leaves the house, and its forms for other programs.

use std::collections::BTreeSet;

use palisade_analysis::exposure::{Assumed, Exposures, LetBy, NAME_LABEL, Open, Protection, Side, Together};
use palisade_engine::{PortSetId, PortSets, Traffic};
use palisade_model::{Direction, LabelSelector, Operator, Protocol, Requirement};

use crate::matrix::{csv_field, traffic, words};
use crate::matrix_text::range;
use crate::v1;

/// Which rows are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// All.
    Everything,
    /// Those that are open to the whole cluster, to new namespaces that nobody labelled, or to the outside.
    Open,
    /// Those that no policy speaks about, or not about all pods.
    Unprotected,
}

/// Writes down exposures.
pub fn exposed(exposures: &Exposures, directions: &[Direction], only: Only, unavailable: &[String]) -> v1::Exposure {
    let mut rows = Vec::new();
    for workload in &exposures.workloads {
        for direction in directions {
            let side = workload.sides.of(*direction);
            let wanted = match only {
                Only::Everything => true,
                Only::Open => side.is_open(),
                Only::Unprotected => side.protection != Protection::Policy,
            };
            if wanted {
                rows.push(v1::ExposureRow {
                    workload: workload.name.clone(),
                    namespace: workload.namespace.to_string(),
                    pods: workload.pods,
                    exposed: row(&exposures.sets, *direction, side),
                });
            }
        }
    }
    let qualifications = unavailable.iter().cloned().chain(assumptions(&exposures.assumed)).collect();
    v1::Exposure { api_version: v1::API_VERSION.to_owned(), kind: "Exposure".to_owned(), qualifications, rows, diagnostics: Vec::new() }
}

fn assumptions(it: &Assumed) -> Vec<String> {
    let mut all = Vec::new();
    if it.told_apart {
        let addresses: Vec<String> = it.addresses.iter().map(ToString::to_string).collect();
        all.push(format!(
            "policy tells pods apart by their addresses; pods of new namespaces are taken to have such as most have, {}",
            addresses.join(" and ")
        ));
    }
    if it.blocks && it.addresses.is_empty() {
        all.push("no pod that was read has an address, so no block of addresses holds for pods, new ones included".to_owned());
    }
    if it.named_ports {
        all.push("an egress rule asks for a named port; pods of new namespaces are taken to name none".to_owned());
    }
    if it.together == Together::TooMany {
        all.push("there are too many rules to try new namespaces that several rules would have to let in together".to_owned());
    }
    all
}

fn row(sets: &PortSets, direction: Direction, side: &Side) -> v1::Exposed {
    let labelled = side.labelled.iter().map(|it| v1::ExposureLabelled {
        namespace: selector(&it.newcomer.wish.namespace),
        pod: selector(&it.newcomer.wish.pod),
        example: v1::ExposureExample { namespace: it.newcomer.namespace.to_string(), pod: it.newcomer.labels.to_string() },
        traffic: open(sets, &it.open),
    });
    let outside = side.outside.iter().map(|it| v1::ExposureRange {
        addresses: [it.first.to_string(), it.last.to_string()],
        range: range(it.first, it.last),
        traffic: open(sets, &it.open),
    });
    v1::Exposed {
        direction: direction.to_string(),
        protected_by: match side.protection {
            Protection::Nothing => "nothing",
            Protection::SomePods => "some pods",
            Protection::Policy => "policy",
        }
        .to_owned(),
        tiers: side.tiers.iter().map(ToString::to_string).collect(),
        whole_cluster: side.cluster.as_ref().map(|it| open(sets, it)),
        any_new_namespace: open(sets, &side.any_new),
        unlabelled_new_namespace: open(sets, &side.unlabelled),
        labelled_new_namespaces: labelled.collect(),
        outside: outside.collect(),
        depends_on_dns: parts(sets, side.depends_on_dns),
    }
}

fn open(sets: &PortSets, it: &Open) -> v1::ExposureTraffic {
    let by = |it: &LetBy| match it {
        LetBy::Tier(tier) => tier.to_string(),
        LetBy::Default => "default".to_owned(),
    };
    v1::ExposureTraffic {
        connections: words(&sets.parts(it.traffic)),
        allowed: parts(sets, it.traffic),
        let_by: it.by.iter().map(by).collect(),
    }
}

fn parts(sets: &PortSets, set: PortSetId) -> Vec<v1::MatrixTraffic> {
    sets.parts(set).iter().map(traffic).collect()
}

/// A selector as people write it; a namespace is called by its name.
fn selector(it: &LabelSelector) -> Option<String> {
    let said = |it: &Requirement| match (&it.operator, *it.key == *NAME_LABEL) {
        (Operator::Equals(name), true) => format!("name {name}"),
        (Operator::In(names), true) => format!("name {}", names.join(" or ")),
        (Operator::NotIn(_) | Operator::Exists | Operator::DoesNotExist, true) | (_, false) => it.to_string(),
    };
    let all: Vec<String> = it.requirements.iter().map(said).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// `namespace with team=observability`, `namespace with env=dev, pods with app=web`.
pub(crate) fn newcomer(it: &v1::ExposureLabelled) -> String {
    let part = |what: &str, asked: &Option<String>| asked.as_ref().map(|it| format!("{what} with {it}"));
    let parts: Vec<String> = [part("namespace", &it.namespace), part("pods", &it.pod)].into_iter().flatten().collect();
    parts.join(", ")
}

/// Ranges with the same traffic in one, in their order: `TCP 80 (10.0.0.0-10.0.0.255, 2001:db8::1)`.
pub(crate) fn outside(all: &[v1::ExposureRange]) -> Vec<(&v1::ExposureTraffic, String)> {
    let mut met: BTreeSet<&v1::ExposureTraffic> = BTreeSet::new();
    let mut said = Vec::new();
    for range in all {
        if met.insert(&range.traffic) {
            let same: Vec<&str> = all.iter().filter(|it| it.traffic == range.traffic).map(|it| it.range.as_str()).collect();
            let both = same == ["any IPv4 address", "any IPv6 address"];
            said.push((&range.traffic, if both { "any address".to_owned() } else { same.join(", ") }));
        }
    }
    said
}

/// What passes to the outside if a domain name resolves to it.
pub(crate) fn by_name(it: &v1::Exposed) -> Option<String> {
    let part = |it: &v1::MatrixTraffic| match (Protocol::parse(&it.protocol), it.first, it.last) {
        (Some(Protocol::Port(protocol)), Some(first), Some(last)) => Traffic::Ports { protocol, first, last },
        _ => Traffic::Rest,
    };
    let parts: Vec<Traffic> = it.depends_on_dns.iter().map(part).collect();
    (!parts.is_empty()).then(|| format!("depends on DNS: {}", words(&parts)))
}

/// One cell for each kind of exposure, empty where nothing passes.
fn cells(row: &v1::ExposureRow) -> [String; 9] {
    let it = &row.exposed;
    let said = |open: &v1::ExposureTraffic| if open.allowed.is_empty() { String::new() } else { open.connections.clone() };
    let labelled: Vec<String> =
        it.labelled_new_namespaces.iter().map(|it| format!("{}: {}", newcomer(it), it.traffic.connections)).collect();
    let outside = outside(&it.outside).into_iter().map(|(open, ranges)| format!("{ranges}: {}", open.connections));
    let outside: Vec<String> = outside.chain(by_name(it)).collect();
    [
        row.workload.clone(),
        it.direction.clone(),
        it.protected_by.clone(),
        it.tiers.join(" "),
        it.whole_cluster.as_ref().map(said).unwrap_or_default(),
        said(&it.any_new_namespace),
        said(&it.unlabelled_new_namespace),
        labelled.join("; "),
        outside.join("; "),
    ]
}

const COLUMNS: [&str; 9] = [
    "workload",
    "direction",
    "protected_by",
    "tiers",
    "whole_cluster",
    "any_new_namespace",
    "unlabelled_new_namespace",
    "labelled_new_namespaces",
    "outside",
];

/// By RFC 4180, with a line of names first.
pub fn csv(report: &v1::Exposure) -> String {
    let mut out = COLUMNS.join(",") + "\n";
    for row in &report.rows {
        for (at, cell) in cells(row).iter().enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            csv_field(&mut out, cell);
        }
        out.push('\n');
    }
    out
}

/// A Markdown table.
pub fn markdown(report: &v1::Exposure) -> String {
    let mut out = format!("| {} |\n|{}\n", COLUMNS.map(|it| it.replace('_', " ")).join(" | "), "---|".repeat(COLUMNS.len()));
    for row in &report.rows {
        let cells = cells(row).map(|it| it.replace('|', "\\|"));
        out.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    out
}
