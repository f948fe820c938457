//! `palisade explain`: why is a connection allowed or denied.

use palisade_analysis::{Asked, Party};
use palisade_model::{NetworkId, Place};
use palisade_report::{explained, v1};

use crate::cluster::Cluster;
use crate::error::AppError;

/// Explains one connection.
pub fn explain(cluster: &Cluster, question: &v1::Question) -> Result<v1::Explanation, AppError> {
    let asked = Asked::parse(&question.from, &question.to, &question.protocol, question.port.as_deref()).map_err(AppError::Option)?;
    within_namespace(cluster, &[("`--from`", &asked.from), ("`--to`", &asked.to)])?;
    let explanation = palisade_analysis::explain(&cluster.snapshot.model, &asked).map_err(|problem| cluster.not_found(problem))?;
    let question = v1::Question { protocol: asked.protocol.to_string(), ..question.clone() };
    let snapshot = &cluster.snapshot;
    Ok(explained(question, &explanation, &snapshot.sources, &snapshot.diagnostics, &cluster.unavailable))
}

/// Fails if an end is outside of the one namespace that was listed, because its policies were not read. An unknown address may be a pod of
/// another namespace.
pub(crate) fn within_namespace(cluster: &Cluster, ends: &[(&str, &Party)]) -> Result<(), AppError> {
    let Some(listed) = &cluster.namespace else { return Ok(()) };
    for (name, party) in ends {
        if party.namespace().is_some_and(|it| it != listed) {
            return Err(AppError::option(format!(
                "{name} is outside of namespace `{listed}`, and with `-n` no policies of other namespaces are read"
            )));
        }
        if let Party::Address(address) = party
            && cluster.snapshot.model.place_of(NetworkId::DEFAULT, *address) == Place::Outside
        {
            return Err(AppError::option(format!(
                "{address} belongs to nothing in namespace `{listed}`, and with `-n` it may be a pod of another one"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;
    use crate::testing::{SHOP, cluster};

    fn check(from: &str, expected: Result<Outcome, &str>) {
        let question =
            v1::Question { from: from.to_owned(), to: "shop/db".to_owned(), protocol: "tcp".to_owned(), port: Some("5432".to_owned()) };
        let found = explain(&cluster(SHOP), &question).map(|it| it.outcome()).map_err(|it| it.to_string());
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn a_connection_is_allowed_denied_or_unknown() {
        check("shop/web", Ok(Outcome::Yes));
        check("shop/batch", Ok(Outcome::No));
        let help = "name a pod that need not exist by its labels: shop/app=nobody";
        check("shop/nobody", Err(&format!("`shop/nobody` is not among the pods and workloads that were read; {help}")));
    }

    #[test]
    fn an_end_outside_of_the_listed_namespace_is_refused() {
        let part = Cluster { namespace: Some("shop".to_owned()), ..cluster(SHOP) };
        for (end, expected) in [("other/web", "`--from` is outside of namespace `shop`"), ("10.9.9.9", "10.9.9.9 belongs to nothing in")] {
            let party = Party::parse(end).unwrap();
            let error = within_namespace(&part, &[("`--from`", &party)]).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
