//! `palisade allow`: what to write so that a connection is allowed.

use palisade_analysis::allow::Wish;
use palisade_analysis::{Asked, Party, PortAsked};
use palisade_model::{NetworkId, Protocol};
use palisade_report::allow::allowed;
use palisade_report::{explained, v1};

use crate::cluster::Cluster;
use crate::error::AppError;
use crate::explain::within_namespace;

/// The connection to allow, and how.
#[derive(Clone, Debug)]
pub struct AllowOptions {
    /// The source.
    pub from: String,
    /// The destination.
    pub to: String,
    /// `5432`, `udp/53`, `icmp`, or the name of a port.
    pub port: String,
    /// Which kinds of proposal are welcome.
    pub wish: Wish,
}

/// Proposes the smallest NetworkPolicies that allow a connection.
pub fn allow(cluster: &Cluster, options: &AllowOptions) -> Result<v1::Allowance, AppError> {
    let asked = asked(options).map_err(AppError::Option)?;
    within_namespace(cluster, &[("FROM", &asked.from), ("TO", &asked.to)])?;
    cluster.complete("no proposal can be trusted")?;
    let snapshot = &cluster.snapshot;
    let allowance = palisade_analysis::allow::allow(&snapshot.model, &asked, options.wish).map_err(|problem| cluster.not_found(problem))?;
    let (_, port) = split(&options.port);
    let question = v1::Question {
        from: options.from.clone(),
        to: options.to.clone(),
        protocol: asked.protocol.to_string(),
        port: (!port.is_empty()).then(|| port.to_owned()),
    };
    let before = allowance.before.clone().families_together();
    let explanation = explained(question, &before, &snapshot.sources, &snapshot.diagnostics, &cluster.unavailable);
    Ok(allowed(&allowance, explanation, &snapshot.sources, &cluster.controller))
}

/// Protocol and port; the port is empty for a protocol that has none.
fn split(text: &str) -> (&str, &str) {
    match text.split_once('/') {
        Some(parts) => parts,
        None if text.eq_ignore_ascii_case("icmp") => (text, ""),
        None => ("tcp", text),
    }
}

fn asked(options: &AllowOptions) -> Result<Asked, String> {
    let (protocol, port) = split(&options.port);
    let Some(protocol) = Protocol::parse(protocol) else {
        return Err(format!("`{}`: `{protocol}` is not tcp, udp, sctp or icmp", options.port));
    };
    let port = PortAsked::written_as(&options.port, protocol, (!port.is_empty()).then_some(port))?;
    let end = |name: &str, text: &str| Party::parse(text).map_err(|error| format!("{name}: {error}"));
    Ok(Asked { network: NetworkId::DEFAULT, from: end("FROM", &options.from)?, to: end("TO", &options.to)?, protocol, port })
}

#[cfg(test)]
mod tests {
    use palisade_analysis::allow::{Form, Isolation};

    use super::*;
    use crate::Outcome;
    use crate::testing::{BROKEN, DENY, SHOP, objects};

    fn check(texts: &[&str], port: &str, expected: Result<(v1::AllowOutcome, Outcome), &str>) {
        let wish = Wish { form: Form::Fitting, isolation: Isolation::AsItIs };
        let options = AllowOptions { from: "shop/batch".to_owned(), to: "shop/db".to_owned(), port: port.to_owned(), wish };
        let found = allow(&objects(texts).cluster(), &options);
        let found = found.map(|it| (it.outcome, it.outcome())).map_err(|it| it.to_string());
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn a_policy_is_proposed_where_it_helps() {
        check(&[SHOP], "5432", Ok((v1::AllowOutcome::Proposed, Outcome::Yes)));
        check(&[SHOP, &DENY.replace("app: web", "app: batch")], "5432", Ok((v1::AllowOutcome::Useless, Outcome::No)));
        check(&[SHOP], "gre/1", Err("`gre/1`: `gre` is not tcp, udp, sctp or icmp"));
        check(&[SHOP, BROKEN], "5432", Err("objects were refused, so no proposal can be trusted"));
    }
}
