//! A port that the destination pods do not serve.

use std::collections::BTreeSet;

use palisade_model::{
    Action, Direction, Endpoint, EndpointId, Peer, PortMatch, PortProtocol, Ports, Service, ServiceKind, Severity, TargetPort,
};
use palisade_report::locate::port_path;

use crate::context::{Context, Placed, peers, ports};
use crate::finding::{Finding, Spot};
use crate::rule::{Needs, Rule};

pub(crate) const RULE: Rule = Rule {
    name: "port-not-served",
    severity: Severity::Warning,
    summary: "A rule accepts a port that none of the destination pods declares.",
    why: "Policy sees the port of the pod, not that of the Service in front of it, and a port without `protocol` is a TCP port. If the number is the Service's or the \
          protocol is wrong, the rule accepts nothing that anybody uses. Where neither is evident it is a note: a pod may serve ports that it does not declare.",
    fix: "Write the port that the containers serve (the `targetPort`), with its protocol.",
    fixable: false,
    needs: Needs::Pods,
    check,
};

fn check(context: &Context<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for placed in context.rules().filter(|it| it.rule.action == Action::Accept && !ports(it.rule).is_empty()) {
        let Some(pods) = destinations(context, &placed) else { continue };
        let pods: Vec<&Endpoint> = pods.iter().filter_map(|it| context.model.endpoint(*it)).collect();
        // A pod that declares nothing may serve anything.
        if pods.is_empty() || pods.iter().any(|it| it.ports.is_empty()) {
            continue;
        }
        for (at, port) in ports(placed.rule).iter().enumerate() {
            let PortMatch::Numbers { protocol, ports } = port else { continue };
            findings.extend(missing(context, &placed, at, (*protocol, *ports), &pods));
        }
    }
    findings
}

/// The pods at which traffic of a rule arrives, where these are known.
fn destinations(context: &Context<'_>, placed: &Placed<'_>) -> Option<BTreeSet<EndpointId>> {
    if placed.direction == Direction::Ingress {
        return Some(context.subjects(placed.policy).iter().flat_map(|it| it.pods.iter().copied()).collect());
    }
    let mut pods = BTreeSet::new();
    for peer in peers(placed.rule) {
        let Peer::Pods { namespaces, pods: selector } = peer else { return None };
        // Whoever may be called on the host network or by its labels later is not known.
        if context.host_pods(namespaces, selector).next().is_some() {
            return None;
        }
        pods.extend(context.pods(namespaces, selector).flat_map(|it| it.pods.iter().copied()));
    }
    Some(pods)
}

fn missing(context: &Context<'_>, placed: &Placed<'_>, at: usize, wanted: (PortProtocol, Ports), pods: &[&Endpoint]) -> Option<Finding> {
    let (protocol, numbers) = wanted;
    let declared = || pods.iter().flat_map(|it| &it.ports);
    if numbers == Ports::ALL || declared().any(|it| it.protocol == protocol && numbers.contains(it.port)) {
        return None;
    }
    let rule = placed.reference();
    let spot = Spot::of(&rule.policy, vec![port_path(&rule, at).field("port"), port_path(&rule, at)], "not served");
    let said =
        if numbers.first() == numbers.last() { numbers.first().to_string() } else { format!("{}-{}", numbers.first(), numbers.last()) };
    let who = context
        .named(pods.iter().filter_map(|it| context.model.endpoints.iter().position(|other| std::ptr::eq(*it, other))).map(EndpointId));
    let finding = |message: String| Finding::new(&RULE, spot.clone(), message);
    if let Some(other) = declared().find(|it| numbers.contains(it.port)) {
        let message = format!("port {said} is accepted with {protocol}, and {who} serves it with {}", other.protocol);
        return Some(finding(message).help(format!("write `protocol: {}`", other.protocol.to_string().to_uppercase())));
    }
    if let Some((service, target)) = behind(context, wanted, pods) {
        let message = format!(
            "port {said} is that of Service {}/{}, and policy sees the port of its pods, {target}",
            service.namespace, service.name
        );
        return Some(finding(message).help(format!("write {target}")));
    }
    let known: BTreeSet<String> = declared().map(|it| format!("{}/{}", it.protocol, it.port)).collect();
    let message =
        format!("no destination declares port {said} of {protocol}: {who} declare {}", known.into_iter().collect::<Vec<_>>().join(", "));
    Some(finding(message).severity(Severity::Note))
}

/// A Service in front of the pods that has the port under another number.
fn behind<'a>(context: &Context<'a>, (protocol, numbers): (PortProtocol, Ports), pods: &[&Endpoint]) -> Option<(&'a Service, String)> {
    let leads = |service: &Service| match &service.kind {
        ServiceKind::Selector { pods: selector, .. } => {
            pods.iter().any(|it| it.name.namespace == service.namespace && selector.matches(&it.labels))
        }
        ServiceKind::NoSelector | ServiceKind::ExternalName(_) => false,
    };
    context.model.services.iter().filter(|it| leads(it)).find_map(|service| {
        let port = service.ports.iter().find(|it| it.protocol == protocol && numbers.contains(it.port))?;
        let target = match &port.target {
            TargetPort::Number(number) if *number == port.port => return None,
            TargetPort::Number(number) => number.to_string(),
            TargetPort::Name(name) => name.to_string(),
        };
        Some((service, target))
    })
}

#[cfg(test)]
mod tests {
    use crate::testing::{CLUSTER, found, np};

    const SERVICE: &str = "apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
---
";

    fn lint(port: &str) -> Vec<String> {
        let policy = np(&format!("  podSelector: {{matchLabels: {{app: web}}}}\n  ingress:\n  - ports: [{port}]"));
        found("port-not-served", &format!("{CLUSTER}{SERVICE}{policy}"))
    }

    #[test]
    fn the_port_of_the_service() {
        let expected = "warning NetworkPolicy shop/p spec.ingress[0].ports[0].port: port 80 is that of Service shop/web, and policy sees the port of its pods, http";
        assert_eq!(lint("{port: 80}"), [expected]);
    }

    #[test]
    fn the_other_protocol() {
        let expected =
            "warning NetworkPolicy shop/p spec.ingress[0].ports[0].port: port 8080 is accepted with udp, and shop/web serves it with tcp";
        assert_eq!(lint("{port: 8080, protocol: UDP}"), [expected]);
    }

    #[test]
    fn a_port_that_nobody_declares_is_a_note() {
        let expected =
            "note NetworkPolicy shop/p spec.ingress[0].ports[0].port: no destination declares port 9999 of tcp: shop/web declare tcp/8080";
        assert_eq!(lint("{port: 9999}"), [expected]);
    }

    #[test]
    fn served_ports_and_ranges_that_hold_one_are_fine() {
        assert_eq!(lint("{port: 8080}"), Vec::<String>::new());
        assert_eq!(lint("{port: 8000, endPort: 9000}"), Vec::<String>::new());
        assert_eq!(lint("{protocol: TCP}"), Vec::<String>::new());
    }
}
