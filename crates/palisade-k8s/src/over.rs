//! Objects put over others, as `kubectl apply` would, and what controllers make of it.

use palisade_api::{Body, Pod, Workload};

use crate::index::Index;
use crate::joins::Owners;
use crate::sources::ObjectKey;

/// Kinds whose pods are replaced when their template changes.
const ROLLED_OUT: &[&str] = &["Deployment", "StatefulSet", "DaemonSet"];

impl Index {
    /// Puts the objects of another over these: those of the same name are replaced, the others added. Pods of a workload whose template changes
    /// follow it, with their names and addresses; labels that controllers gave them stay.
    pub fn put_over(&mut self, over: Index) {
        let templates = self.changed_templates(&over);
        let Index { objects, sources, diagnostics, live_diagnostics, irrelevant, .. } = over;
        // What was refused has a place and no body, and what was here under its name is not what would be there then.
        for refused in sources.keys().filter(|it| !objects.contains_key(*it)) {
            self.set_object(refused, None);
        }
        for (key, body) in objects {
            self.set_object(&key, Some(body));
        }
        self.sources.put_over(sources);
        self.diagnostics.extend(diagnostics);
        self.live_diagnostics.extend(live_diagnostics);
        for (kind, count) in irrelevant {
            *self.irrelevant.entry(kind).or_default() += count;
        }
        self.roll_out(&templates);
    }

    /// Workloads that get another template, with the one they had and the one they get.
    fn changed_templates(&self, over: &Index) -> Vec<(ObjectKey, Workload, Workload)> {
        let mut changed = Vec::new();
        for (key, body) in over.objects.iter().filter(|(key, _)| ROLLED_OUT.contains(&key.kind.as_ref())) {
            if let (Body::Workload(after), Some(Body::Workload(before))) = (body, self.objects.get(key))
                && (&before.labels, &before.template) != (&after.labels, &after.template)
            {
                changed.push((key.clone(), before.clone(), after.clone()));
            }
        }
        changed
    }

    fn roll_out(&mut self, templates: &[(ObjectKey, Workload, Workload)]) {
        if templates.is_empty() {
            return;
        }
        let mut owners = Owners::default();
        for (key, body) in &self.objects {
            if let Body::Workload(workload) = body {
                owners.set(key, Some(workload.meta.owner.clone()));
            }
        }
        let mut rolled = Vec::new();
        for (key, body) in &self.objects {
            let Body::Pod(pod) = body else { continue };
            let chain = owners.chain(key, pod.meta.owner.as_ref(), &pod.meta.labels);
            let mut after = pod.clone();
            for (_, before, now) in templates.iter().filter(|it| chain.contains(&it.0)) {
                follow(&mut after, before, now);
            }
            if after != *pod {
                rolled.push((key.clone(), after));
            }
        }
        for (key, pod) in rolled {
            self.set_object(&key, Some(Body::Pod(pod)));
        }
    }
}

fn follow(pod: &mut Pod, before: &Workload, after: &Workload) {
    for (label, _) in before.labels.iter() {
        pod.meta.labels.remove(label);
    }
    for (label, value) in after.labels.iter() {
        pod.meta.labels.set(label, value);
    }
    pod.template.ports.clone_from(&after.template.ports);
    if pod.template.host_network != after.template.host_network {
        // Its address was that of the other network.
        pod.addresses.clear();
        pod.template.host_network = after.template.host_network;
    }
}

#[cfg(test)]
mod tests {
    use palisade_model::{Endpoint, Severity};

    use crate::{Index, Snapshot, Text};

    const LIVE: &str = r#"
{apiVersion: v1, kind: Namespace, metadata: {name: x}}
---
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: x}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web, role: front}}, spec: {containers: [{name: a, image: a}]}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-5d-1, namespace: x, labels: {app: web, role: front, pod-template-hash: 5d}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-5d, uid: "1", controller: true}]}, spec: {containers: [{name: a, image: a}]}, status: {podIP: 10.0.0.1, podIPs: [{ip: 10.0.0.1}]}}
---
{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: x}, spec: {podSelector: {}}}
"#;

    fn index(file: &str, content: &str) -> Index {
        let mut index = Index::default();
        index.read(Text { file: file.into(), content: content.into() });
        index
    }

    fn with(over: &str) -> Snapshot {
        let mut live = index("live", LIVE);
        live.put_over(index("over", over));
        live.snapshot()
    }

    #[test]
    fn an_object_of_the_same_name_is_replaced_and_others_are_added() {
        let policy = |name: &str| {
            format!(
                "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: {name}, namespace: x}}, spec: {{podSelector: {{matchLabels: {{a: b}}}}}}}}\n---\n"
            )
        };
        let snapshot = with(&[policy("p"), policy("q")].concat());
        let origins: Vec<String> = snapshot.model.policies.iter().map(|it| it.origin.to_string()).collect();
        assert_eq!(origins, ["np/x/p", "np/x/q"]);
        assert_eq!(snapshot.model.policies[0].subject, snapshot.model.policies[1].subject);
        assert_eq!(snapshot.diagnostics, []);
        let key = (&snapshot.model.policies[1].origin).into();
        assert_eq!(snapshot.sources.location(&key).unwrap().to_string(), "over:3:1");
    }

    #[test]
    fn a_refused_object_takes_the_one_before_it_away() {
        let snapshot =
            with("{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: p, namespace: x}, spec: {podSelectr: {}}}");
        assert!(snapshot.model.policies.is_empty());
        assert!(snapshot.diagnostics.iter().any(|it| it.severity == Severity::Error));
    }

    #[test]
    fn pods_follow_the_template_of_their_workload() {
        let snapshot = with(
            "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: x}, spec: {selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web, tier: one}}, spec: {containers: [{name: a, image: a, ports: [{containerPort: 80}]}]}}}}",
        );
        let said = |it: &Endpoint| format!("{} {} {:?} {}", it.name, it.labels, it.addresses, it.ports.len());
        let pods: Vec<String> = snapshot.model.endpoints.iter().map(said).collect();
        assert_eq!(pods, ["x/web-5d-1 app=web,pod-template-hash=5d,tier=one [10.0.0.1] 1"]);
    }
}
