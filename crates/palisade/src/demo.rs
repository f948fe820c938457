//! `palisade demo`: the example cluster, every verdict with its reason, then one explanation.

use std::sync::Arc;

use anyhow::{Result, anyhow};
use palisade_analysis::{Asked, Party, PortAsked, answer};
use palisade_k8s::Text;
use palisade_model::{Model, Protocol};
use palisade_report::{explained, text, v1};
use palisade_runtime::Gathered;

use crate::cli::DemoArgs;
use crate::input::{self, Input};
use crate::outcome::Outcome;

/// The example, as it stands in examples/shop.
const EXAMPLE: &[(&str, &str)] = &[
    ("examples/shop/1-namespaces.yaml", include_str!("../../../examples/shop/1-namespaces.yaml")),
    ("examples/shop/2-workloads.yaml", include_str!("../../../examples/shop/2-workloads.yaml")),
    ("examples/shop/3-developers.yaml", include_str!("../../../examples/shop/3-developers.yaml")),
    ("examples/shop/4-admins.yaml", include_str!("../../../examples/shop/4-admins.yaml")),
];

/// An address that belongs to nobody in the example.
const CLIENT: &str = "203.0.113.7";

pub(crate) fn run(_: &DemoArgs) -> Result<Outcome> {
    let texts = EXAMPLE.iter().map(|(file, content)| Text { file: Arc::from(*file), content: Arc::from(*content) }).collect();
    let input = input::from(Gathered { texts, ..Gathered::default() });
    let mut out = String::from("A shop of three tiers, a second tenant and monitoring (examples/shop). Who reaches whom, and why:\n");
    out.push_str(&decided(&input)?);
    out.push_str("\n$ palisade explain -f examples/shop --from shop/web --to shop/db --port 5432\n");
    out.push_str(&text::explanation(&explain(&input, "shop/web", "shop/db", 5432)?, text::Detail::Decisive));
    Ok(Outcome::said(out))
}

/// Every workload and an outside client, to every port that a workload declares.
pub(crate) fn decided(input: &Input) -> Result<String> {
    let model = &input.snapshot.model;
    let mut rows = Vec::new();
    for to in &model.endpoints {
        for port in &to.ports {
            let destination = to.name.to_string();
            for from in sources(model).filter(|from| *from != destination) {
                let explanation = explain(input, &from, &destination, port.port)?;
                rows.push(text::Row { from, to: destination.clone(), traffic: format!("{}/{}", port.protocol, port.port), explanation });
            }
        }
    }
    Ok(text::table(&rows))
}

fn sources(model: &Model) -> impl Iterator<Item = String> + '_ {
    model.endpoints.iter().map(|it| it.name.to_string()).chain([CLIENT.to_owned()])
}

fn explain(input: &Input, from: &str, to: &str, port: u16) -> Result<v1::Explanation> {
    let party = |text: &str| Party::parse(text).map_err(|error| anyhow!(error));
    let asked = Asked { from: party(from)?, to: party(to)?, protocol: Protocol::TCP, port: PortAsked::Number(port) };
    let explanation = match (from, to) {
        ("shop/web", "shop/db") => palisade_analysis::explain(&input.snapshot.model, &asked),
        _ => answer(&input.snapshot.model, &asked),
    }
    .map_err(|error| anyhow!(error))?;
    let question = v1::Question { from: from.to_owned(), to: to.to_owned(), protocol: "tcp".to_owned(), port: Some(port.to_string()) };
    Ok(explained(question, &explanation, &input.snapshot.sources, &input.snapshot.diagnostics, &[]))
}
