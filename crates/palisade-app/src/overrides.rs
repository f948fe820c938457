//! `palisade overrides`: where cluster policies override NetworkPolicies, and each other.

use palisade_analysis::overrides::{Overrides, between, cluster_policies, overridden, overrides as find, ties};
use palisade_model::{Diagnostic, Model, Policy, PolicyKind, PolicyRef, Severity, Tier};
use palisade_report::overrides::{Overriding, Read, Redaction};
use palisade_report::v1;

use crate::cluster::Cluster;
use crate::error::{AppError, Noticed};

/// Why one namespace is not enough.
pub const WHOLE_CLUSTER: &str = "overrides are about the whole cluster, and policies and pods of other namespaces would not be read";

/// Which policies are asked about.
#[derive(Clone, Debug)]
pub struct OverridesOptions {
    /// Policies by reference, as in `cnp/NAME` and `np/NAMESPACE/NAME`. If empty: every cluster policy, or those that differ from the old
    /// version, or with a redaction every NetworkPolicy.
    pub policies: Vec<String>,
    /// What a reader may not see.
    pub redaction: Redaction,
}

/// References to the policies that are asked about.
struct Chosen {
    cluster: Vec<PolicyRef>,
    network: Vec<PolicyRef>,
}

/// Finds overrides in a cluster. `old` is the cluster before objects were applied, if some were.
pub fn overrides(cluster: &Cluster, old: Option<&Cluster>, options: &OverridesOptions) -> Result<v1::OverrideReport, AppError> {
    cluster.whole(WHOLE_CLUSTER)?;
    let diagnostics = diagnostics(cluster, options.redaction);
    if cluster.refused() || old.is_some_and(Cluster::refused) {
        let consequence = "nothing that is said about the others can be trusted";
        return Err(AppError::Refused { what: "objects", consequence, noticed: Noticed::Cluster(diagnostics) });
    }
    if !cluster.has_pods() {
        return Err(AppError::NoPods(Noticed::Cluster(diagnostics)));
    }
    let model = &cluster.snapshot.model;
    let chosen = chosen(model, old.map(|it| &it.snapshot.model), options).map_err(AppError::Option)?;
    let read = Read { model, sources: &cluster.snapshot.sources };
    let found = find(model, &chosen.cluster);
    let mut cluster_policies = Vec::with_capacity(chosen.cluster.len());
    for (origin, found) in chosen.cluster.iter().zip(&found) {
        if let Some(policy) = policy_of(model, origin) {
            cluster_policies.push(about(cluster, old, read, policy, found));
        }
    }
    let network = overridden(model, &chosen.network);
    Ok(v1::OverrideReport {
        api_version: v1::API_VERSION.to_owned(),
        kind: "OverrideReport".to_owned(),
        redacted: options.redaction == Redaction::ClusterPolicies,
        qualifications: cluster.limits(),
        network_policies: network.iter().map(|it| read.overridden(it, options.redaction)).collect(),
        cluster_policies,
        diagnostics,
    })
}

/// Diagnostics, without those about cluster policies if these are redacted.
fn diagnostics(cluster: &Cluster, redaction: Redaction) -> Vec<v1::Diagnostic> {
    let kinds = [PolicyKind::ClusterNetworkPolicy, PolicyKind::AdminNetworkPolicy, PolicyKind::BaselineAdminNetworkPolicy];
    // A kind may have its group behind it.
    let is_cluster_policy = |object: &str| kinds.iter().any(|it| object.split([' ', '.']).next() == Some(it.as_str()));
    // A diagnostic about no object may name any object; these do not.
    let names_none = |it: &Diagnostic| ["assumed-namespace", "nothing-read", "forbidden-policies"].contains(&it.code);
    let is_open = |it: &Diagnostic| if it.object.is_empty() { names_none(it) } else { !is_cluster_policy(&it.object) };
    let shown = |it: &&Diagnostic| redaction == Redaction::None || is_open(it);
    let all = &cluster.snapshot.diagnostics;
    let mut found: Vec<v1::Diagnostic> = all.iter().filter(shown).map(v1::Diagnostic::from).collect();
    if all.iter().any(|it| it.severity == Severity::Error && !shown(&it)) {
        found.push(v1::Diagnostic {
            severity: Severity::Error.to_string(),
            code: "redacted".to_owned(),
            place: None,
            object: String::new(),
            path: String::new(),
            message: "a cluster policy was refused".to_owned(),
            help: Some("ask somebody who may see cluster policies".to_owned()),
        });
    }
    found
}

fn chosen(model: &Model, old: Option<&Model>, options: &OverridesOptions) -> Result<Chosen, String> {
    let redact = options.redaction == Redaction::ClusterPolicies;
    if options.policies.is_empty() {
        return unnamed(model, old, redact);
    }
    let mut chosen = Chosen { cluster: Vec::new(), network: Vec::new() };
    for text in &options.policies {
        let found = model.policies.iter().find(|it| it.origin.to_string() == *text);
        match found {
            Some(it) if it.tier == Tier::NetworkPolicy => chosen.network.push(it.origin.clone()),
            Some(_) | None if redact && !text.starts_with("np/") => {
                return Err(format!("`{text}`: with `--redact` only NetworkPolicies can be asked about, as in np/NAMESPACE/NAME"));
            }
            Some(it) => chosen.cluster.push(it.origin.clone()),
            None => return Err(format!("`{text}` was not read, or is for another controller; write {}", forms(model, redact))),
        }
    }
    Ok(chosen)
}

/// The policies that are meant if none is named.
fn unnamed(model: &Model, old: Option<&Model>, redact: bool) -> Result<Chosen, String> {
    let clusters = || cluster_policies(model).into_iter();
    Ok(match (redact, old) {
        (true, _) => {
            let network = model.policies.iter().filter(|it| it.tier == Tier::NetworkPolicy).map(|it| it.origin.clone());
            Chosen { cluster: Vec::new(), network: network.collect() }
        }
        (false, None) => Chosen { cluster: clusters().collect(), network: Vec::new() },
        (false, Some(old)) => {
            let proposed: Vec<PolicyRef> = clusters().filter(|it| is_proposed(old, model, it)).collect();
            if proposed.is_empty() {
                return Err("`--apply`: no cluster policy in it is new or different; name the policies to ask about".to_owned());
            }
            Chosen { cluster: proposed, network: Vec::new() }
        }
    })
}

/// References to some policies that exist, as examples.
fn forms(model: &Model, redact: bool) -> String {
    let network = model.policies.iter().filter(|it| it.tier == Tier::NetworkPolicy).map(|it| it.origin.to_string());
    let cluster = cluster_policies(model).into_iter().filter(|_| !redact).map(|it| it.to_string());
    let known: Vec<String> = cluster.take(5).chain(network.take(5)).collect();
    if known.is_empty() {
        "cnp/NAME or np/NAMESPACE/NAME; no policy was read".to_owned()
    } else {
        format!("one of {}, …", known.join(", "))
    }
}

fn policy_of<'m>(model: &'m Model, origin: &PolicyRef) -> Option<&'m Policy> {
    model.policies.iter().find(|it| it.origin == *origin)
}

/// Whether a policy is new or differs from the old version.
fn is_proposed(old: &Model, new: &Model, origin: &PolicyRef) -> bool {
    policy_of(old, origin) != policy_of(new, origin)
}

fn about(cluster: &Cluster, old: Option<&Cluster>, read: Read<'_>, policy: &Policy, found: &[Overrides]) -> v1::OverridingPolicy {
    let new = &cluster.snapshot;
    let origin = &policy.origin;
    let proposed = old.filter(|old| is_proposed(&old.snapshot.model, &new.model, origin));
    let mut without = new.model.clone();
    without.policies.retain(|it| it.origin != *origin);
    let ties = ties(&new.model, origin);
    let (compared, changes, before) = match proposed {
        None => (v1::OverrideComparison::Goes, between(&new.model, &without), &new.sources),
        Some(old) => {
            without.policies.extend(policy_of(&old.snapshot.model, origin).cloned());
            (v1::OverrideComparison::Comes, between(&without, &new.model), &old.snapshot.sources)
        }
    };
    read.overriding(&Overriding { policy, overrides: found, ties: &ties, compared, changes: &changes, before, after: &new.sources })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Outcome;
    use crate::testing::{DENY, SHOP, objects};

    fn check(texts: &[&str], policies: &[&str], expected: Result<Outcome, &str>) {
        let policies = policies.iter().map(|it| (*it).to_owned()).collect();
        let options = OverridesOptions { policies, redaction: Redaction::None };
        let found = overrides(&objects(texts).cluster(), None, &options).map(|it| it.outcome()).map_err(|it| it.to_string());
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn a_cluster_policy_overrides_a_network_policy() {
        check(&[SHOP, DENY], &[], Ok(Outcome::No));
        check(&[SHOP], &["np/shop/db"], Ok(Outcome::Yes));
        check(
            &[SHOP, DENY],
            &["anp/none"],
            Err("`anp/none` was not read, or is for another controller; write one of anp/no-web, np/shop/db, …"),
        );
        check(&[DENY], &[], Err("no pod or workload of the pod network was read, so there is nobody to answer about"));
    }
}
