//! Every field of every kind of policy, misspelt: the object is refused, whatever it would have said without the field.

use palisade_model::Severity;
use palisade_testkit::check::snapshot;
use palisade_testkit::mutate::strangers;
use palisade_testkit::objects::Objects;
use palisade_testkit::paths;
use serde_json::Value;

/// One policy for each shape, with every field that it has.
const POLICIES: [&str; 6] = [
    "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: x}, spec: {
        podSelector: {matchLabels: {app: a}, matchExpressions: [{key: app, operator: In, values: [a]}]},
        policyTypes: [Ingress, Egress],
        ingress: [{from: [{podSelector: {}, namespaceSelector: {}}], ports: [{protocol: TCP, port: 80, endPort: 90}]}],
        egress: [{to: [{ipBlock: {cidr: 10.0.0.0/8, except: [10.1.0.0/16]}}], ports: [{port: web}]}]}}",
    "{apiVersion: policy.networking.k8s.io/v1alpha2, kind: ClusterNetworkPolicy, metadata: {name: p}, spec: {
        tier: Admin, priority: 5, subject: {pods: {namespaceSelector: {matchLabels: {team: a}}, podSelector: {}}},
        ingress: [{name: in, action: Accept, from: [{namespaces: {matchLabels: {team: a}}}],
                   protocols: [{tcp: {destinationPort: {number: 80}}}, {destinationNamedPort: web}]}],
        egress: [{name: out, action: Accept, to: [{networks: [10.0.0.0/8]}, {nodes: {matchLabels: {a: b}}}, {domainNames: [example.com]}],
                  protocols: [{udp: {destinationPort: {range: {start: 1, end: 9}}}}, {sctp: {destinationPort: {number: 80}}}]}]}}",
    "{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {name: p}, spec: {
        priority: 5, subject: {pods: {namespaceSelector: {matchLabels: {team: a}}, podSelector: {}}},
        ingress: [{name: in, action: Allow, from: [{namespaces: {matchLabels: {team: a}}}, {pods: {namespaceSelector: {}, podSelector: {}}}],
                   ports: [{portNumber: {protocol: UDP, port: 80}}, {namedPort: web}]}],
        egress: [{name: out, action: Allow, to: [{networks: [10.0.0.0/8]}, {nodes: {matchLabels: {a: b}}}, {domainNames: [example.com]}],
                  ports: [{portRange: {protocol: SCTP, start: 1, end: 9}}]}]}}",
    "{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {name: p}, spec: {
        priority: 5, subject: {namespaces: {matchExpressions: [{key: team, operator: Exists}]}},
        ingress: [{name: in, action: Allow, from: [{namespaces: {sameLabels: [team]}}, {namespaces: {notSameLabels: [team]}}]}],
        egress: [{action: Pass, to: [{pods: {namespaces: {namespaceSelector: {matchLabels: {team: a}}}, podSelector: {}}}]}]}}",
    "{apiVersion: policy.networking.k8s.io/v1alpha1, kind: BaselineAdminNetworkPolicy, metadata: {name: default}, spec: {
        subject: {namespaces: {matchLabels: {team: a}}},
        ingress: [{name: in, action: Allow, from: [{namespaces: {matchLabels: {team: a}}}], ports: [{portNumber: {port: 80}}]}],
        egress: [{action: Deny, to: [{networks: [10.0.0.0/8]}, {nodes: {}}], ports: [{portRange: {start: 1, end: 9}}]}]}}",
    "{apiVersion: policy.networking.k8s.io/v1alpha1, kind: AdminNetworkPolicy, metadata: {name: p}, spec: {
        priority: 5, subject: {namespaceAndPodSelector: {namespaceSelector: {matchLabels: {team: a}}, podSelector: {matchLabels: {app: a}}}},
        ingress: [{name: in, action: Allow, l4Selector: {allPorts: true},
                   from: [{namespaces: {self: true}}, {namespaces: {notSelf: true}}, {namespaces: {namespaceSelector: {}}}]}],
        egress: [{action: Pass, l4Selector: {ports: [{protocol: TCP, port: 80, endPort: 90}]}, to: [
                   {namespacedPods: {namespaces: {sameLabels: [team]}, pods: {notSameLabels: [app]}}},
                   {namespacedPods: {namespaces: {notSameLabels: [team]}, pods: {sameLabels: [app]}}},
                   {namespacedPods: {namespaces: {self: true}, pods: {podSelector: {}}}}]}]}}",
];

/// Slips of the kind that keyboards make: another case, a letter less, two letters swapped.
fn slips(key: &str) -> Vec<String> {
    let (first, rest) = key.split_at(1);
    let mut slips = vec![format!("{}{rest}", first.to_uppercase()), format!("{key}s")];
    if key.chars().any(char::is_uppercase) {
        slips.push(key.to_lowercase());
    }
    if key.len() > 3 {
        slips.push(key[..key.len() - 1].to_owned());
        slips.push(format!("{}{}{}{}", first, &key[2..3], &key[1..2], &key[3..]));
    }
    slips.retain(|it| it != key);
    slips
}

fn renamed(object: &Value, path: &str, to: &str) -> Value {
    let mut object = object.clone();
    let (above, key) = paths::split(path).unwrap();
    let fields = object.pointer_mut(above).unwrap().as_object_mut().unwrap();
    let inner = fields.remove(&key).unwrap();
    fields.insert(to.to_owned(), inner);
    object
}

fn errors(object: &Value) -> Vec<String> {
    let read = snapshot("f.json", &object.to_string());
    read.diagnostics.iter().filter(|it| it.severity == Severity::Error).map(ToString::to_string).collect()
}

#[test]
fn a_misspelt_field_of_any_kind_is_refused() {
    let (mut tried, mut unnoticed) = (0, Vec::new());
    for policy in POLICIES {
        let object = Objects::parse(policy).unwrap().0.remove(0);
        assert_eq!(errors(&object), Vec::<String>::new(), "{policy}");
        for path in paths::all(&object).into_iter().filter(|it| it.starts_with("/spec/")) {
            let (_, key) = paths::split(&path).unwrap();
            if key.parse::<usize>().is_ok() {
                continue;
            }
            for slip in slips(&key) {
                let object = renamed(&object, &path, &slip);
                // Not a label's key, and not another field.
                if strangers(&object).is_empty() {
                    continue;
                }
                tried += 1;
                unnoticed.extend(errors(&object).is_empty().then(|| format!("{} {path}: {slip}", object["apiVersion"])));
            }
        }
    }
    assert!(unnoticed.is_empty(), "{} of {tried}:\n{}", unnoticed.len(), unnoticed.join("\n"));
    assert!(tried > 300, "{tried}");
}
