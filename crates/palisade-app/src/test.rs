//! `palisade test`: expectations about connections, held against the policies.

use palisade_analysis::expect;
use palisade_k8s::Text;
use palisade_report::{tested, v1};

use crate::cluster::Cluster;
use crate::error::AppError;

/// Why one namespace is not enough.
pub const WHOLE_CLUSTER: &str = "expectations are about the whole cluster, and policies of other namespaces would not be read";

/// Checks files of expectations. Expectations that cannot be read are diagnostics of the report, which is then not trusted.
pub fn test(cluster: &Cluster, files: &[Text]) -> Result<v1::TestReport, AppError> {
    cluster.whole(WHOLE_CLUSTER)?;
    let (mut expectations, mut unread) = (Vec::new(), Vec::new());
    for file in files {
        let (some, problems) = expect::parse(&file.file, &file.content);
        expectations.extend(some);
        unread.extend(problems);
    }
    let outcomes = expect::run_all(&cluster.snapshot.model, &expectations);
    Ok(tested(&expectations, &outcomes, &cluster.snapshot, &unread, &cluster.unavailable))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;
    use crate::testing::{SHOP, cluster};

    fn check(expectation: &str, expected: Outcome) {
        let file = Text { file: "expect.yaml".into(), content: format!("- {expectation}\n").into() };
        assert_eq!(test(&cluster(SHOP), &[file]).unwrap().outcome(), expected, "{expectation}");
    }

    #[test]
    fn an_expectation_holds_fails_or_cannot_be_read() {
        check("shop/web -> shop/db tcp/5432 allowed", Outcome::Yes);
        check("shop/batch -> shop/db tcp/5432 allowed", Outcome::No);
        check("shop/batch likes shop/db", Outcome::CouldNotTell);
    }

    #[test]
    fn a_part_of_a_cluster_is_refused() {
        let part = Cluster { namespace: Some("shop".to_owned()), ..cluster(SHOP) };
        assert!(matches!(test(&part, &[]), Err(AppError::OneNamespace(_))));
    }
}
