//! A Service for the outside whose pods let nobody in from there.

use palisade_k8s::{FieldPath, ObjectKey};
use palisade_model::{Direction, Endpoint, EndpointId, Protocol, Service, ServiceKind, ServicePort, Severity, TargetPort};

use crate::asking::selecting;
use crate::context::{Context, called, listed};
use crate::finding::{Finding, Spot};
use crate::paths;
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "exposed-but-blocked",
    severity: Severity::Warning,
    summary: "A Service of type LoadBalancer or NodePort leads to pods that admit no address outside of the cluster.",
    why: "The Service hands out an address to the world, and every connection to it ends in a timeout: policy sees the client's address, which no rule accepts.",
    fix: "Add an ingress rule with an ipBlock for the clients, or make the Service a ClusterIP.",
    fixable: false,
    needs: Needs::Pods,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    context.model.services.iter().filter_map(|it| finding(context, it)).collect()
}

fn finding(context: &Context<'_>, service: &Service) -> Option<Finding> {
    let ServiceKind::Selector { pods, .. } = &service.kind else { return None };
    let key = ObjectKey { kind: "Service".into(), namespace: Some(service.namespace.clone()), name: service.name.clone() };
    let own = palisade_model::NamespaceSet::Own(service.namespace.clone());
    let behind: Vec<EndpointId> = context.pods(&own, pods).flat_map(|it| it.pods.iter().copied()).collect();
    if behind.is_empty() || context.host_pods(&own, pods).next().is_some() {
        return None;
    }
    let outside = context.scalar(&key, &paths::field("type")).filter(|it| it == "LoadBalancer" || it == "NodePort")?;
    if service.ports.iter().any(|port| behind.iter().any(|it| admits(context, *it, port))) {
        return None;
    }
    let isolating = selecting(context, *behind.first()?, Direction::Ingress);
    let spot = Spot::new(key, vec![paths::field("type"), FieldPath::default().field("spec")], "for the outside");
    let message = format!("is a {outside}, and its pods admit no address outside of the cluster: {}", context.named(behind));
    let policies: Vec<_> = isolating.iter().map(|it| it.policy).filter(|it| it.isolates.ingress).collect();
    let mut finding = Finding::new(&RULE, spot, message)
        .help(format!("{} would have to accept it", listed(policies.iter().map(|it| called(&it.origin)))));
    finding.further = policies.iter().take(2).map(|it| Spot::of(&it.origin, paths::subject(&it.origin), "isolates them")).collect();
    (!policies.is_empty()).then_some(finding)
}

/// Whether a pod admits somebody outside on a port of a Service.
fn admits(context: &Context<'_>, pod: EndpointId, port: &ServicePort) -> bool {
    let Some(target) = context.model.endpoint(pod).and_then(|it| number(it, port)) else { return true };
    let mut reach = context.reach();
    let ends: Vec<_> = reach.ends(pod).collect();
    let outside: Vec<_> = reach.outside().map(|it| it.2).collect();
    ends.iter().any(|to| {
        outside.iter().any(|from| {
            let passing = reach.between(from, to);
            passing.is_none_or(|it| reach.sets().contains(it.allowed, Protocol::Port(port.protocol), Some(target)))
        })
    })
}

fn number(pod: &Endpoint, port: &ServicePort) -> Option<u16> {
    match &port.target {
        TargetPort::Number(number) => Some(*number),
        TargetPort::Name(name) => {
            pod.ports.iter().find(|it| it.name.as_deref() == Some(name) && it.protocol == port.protocol).map(|it| it.port)
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, found, np};

    fn lint(kind: &str, from: &str) -> Vec<String> {
        let service = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{namespace: shop, name: web}}\nspec:\n  type: {kind}\n  selector: {{app: web}}\n  ports: [{{port: 80, targetPort: http}}]\n---\n"
        );
        let policy = np(&format!("  podSelector: {{}}\n  ingress:\n  - from: [{from}]"));
        found("exposed-but-blocked", &format!("{CLUSTER}{service}{policy}"))
    }

    #[test]
    fn nobody_outside_gets_in() {
        let expected =
            "warning Service shop/web spec.type: is a LoadBalancer, and its pods admit no address outside of the cluster: shop/web";
        assert_eq!(lint("LoadBalancer", "{podSelector: {}}"), [expected]);
    }

    #[test]
    fn some_clients_are_enough_and_a_cluster_ip_is_for_pods() {
        assert_eq!(lint("LoadBalancer", "{ipBlock: {cidr: 203.0.113.0/24}}"), Vec::<String>::new());
        assert_eq!(lint("ClusterIP", "{podSelector: {}}"), Vec::<String>::new());
    }
}
