//! Every field of every kind of policy, misspelt: the object is refused, whatever it would have said without the field. And every map of
//! every kind with a field that nobody knows: that is said, and what counts all the same is closed.

use palisade_engine::compile;
use palisade_model::Severity;
use palisade_testkit::check::snapshot;
use palisade_testkit::compare::{Judges, Question};
use palisade_testkit::mutate::strangers;
use palisade_testkit::objects::Objects;
use palisade_testkit::paths;
use palisade_testkit::scenario::{Party, RawProtocol};
use serde_json::{Value, json};

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

/// Three pods that the policies select or name, on a node.
const PODS: &str = "
{apiVersion: v1, kind: Namespace, metadata: {name: x, labels: {team: a}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: z, labels: {team: b}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n, labels: {a: b}}, status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: one, namespace: x, labels: {app: a}}, spec: {nodeName: n}, status: {podIPs: [{ip: 10.0.0.1}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: two, namespace: x, labels: {app: b}}, spec: {nodeName: n}, status: {podIPs: [{ip: 10.0.0.2}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: three, namespace: z, labels: {app: a}}, status: {podIPs: [{ip: 10.1.0.3}]}}
";

fn questions() -> Vec<Question> {
    let pod = |namespace: &str, name: &str| Party::Pod { namespace: namespace.to_owned(), name: name.to_owned() };
    let others = [pod("x", "two"), pod("z", "three"), Party::Node("n".to_owned()), Party::Address("203.0.113.1".parse().unwrap())];
    let traffic = [(RawProtocol::Tcp, Some(80)), (RawProtocol::Udp, Some(80)), (RawProtocol::Sctp, Some(5)), (RawProtocol::Icmp, None)];
    let mut questions = Vec::new();
    for other in others {
        for (protocol, port) in traffic {
            questions.push(Question { network: None, from: other.clone(), to: pod("x", "one"), protocol, port });
            questions.push(Question { network: None, from: pod("x", "one"), to: other.clone(), protocol, port });
        }
    }
    questions
}

#[test]
fn an_unknown_field_anywhere_is_noticed_and_closes_what_still_counts() {
    let (mut counted, mut wrong) = (0, Vec::new());
    for action in ["Allow", "Deny", "Pass"] {
        for policy in POLICIES {
            let action = if policy.contains("v1alpha2") { action.replace("Allow", "Accept") } else { action.to_owned() };
            let policy =
                policy.replace("action: Accept", &format!("action: {action}")).replace("action: Allow", &format!("action: {action}"));
            let object = Objects::parse(&policy).unwrap().0.remove(0);
            let places = paths::all(&object).into_iter().filter(|it| it.starts_with("/spec/"));
            for path in places.filter(|it| !it.ends_with("/matchLabels") && object.pointer(it).is_some_and(Value::is_object)) {
                let mut strange = object.clone();
                strange.pointer_mut(&path).unwrap()["quotas"] = json!({"most": 3});
                let mut objects = Objects::parse(PODS).unwrap();
                objects.0.push(strange);
                let read = snapshot("f.json", &objects.to_json());
                let loud = read.diagnostics.iter().filter(|it| it.severity != Severity::Note && it.to_string().contains("quotas")).count();
                if loud == 0 {
                    wrong.push(format!("{} {path}: nothing is said", object["apiVersion"]));
                }
                if read.model.policies.is_empty() {
                    continue;
                }
                counted += 1;
                let compiled = compile(&read.model);
                let mut judges = Judges::of(&read.model, &compiled, Some(&objects));
                wrong.extend(
                    questions().iter().filter_map(|it| judges.ask(it).err().map(|found| format!("{action} {path}: {it}: {found:?}"))),
                );
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {counted}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(counted > 100, "{counted}");
}
