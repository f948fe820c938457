//! Which of its shapes an AdminNetworkPolicy or BaselineAdminNetworkPolicy is written in. SPEC: semantics 3.3.
//!
//! Three APIs were written under one apiVersion and kind, and a priority of 10 is strong in two of them and weak in the third. Every field that not
//! all of them have is a mark; where the marks contradict each other the object is refused, never guessed.

use palisade_model::Shape;

use crate::names;
use crate::problem::Consequence;
use crate::read::{Reader, near};
use crate::tree::{Entry, FieldPath, Node, Span, Value};

/// The shapes that an AdminNetworkPolicy may have under the apiVersion that they share.
pub(crate) const ADMIN: &[Shape] = &[Shape::Late, Shape::Kep2091, Shape::Early];
/// Those of a BaselineAdminNetworkPolicy.
pub(crate) const BASELINE: &[Shape] = &[Shape::Late, Shape::Early];
/// The only one under our own apiVersion.
pub(crate) const OWN_GROUP: &[Shape] = KEP2091;

const KEP2091: &[Shape] = &[Shape::Kep2091];
const EARLY: &[Shape] = &[Shape::Early];
const LATE: &[Shape] = &[Shape::Late];
const SHIPPED: &[Shape] = &[Shape::Late, Shape::Early];
const SETS: &[Shape] = &[Shape::Kep2091, Shape::Early];
const ALL_NAMESPACES: &[Shape] = &[Shape::Late, Shape::Kep2091];

/// A field that only some shapes have.
struct Mark {
    shapes: &'static [Shape],
    path: FieldPath,
    span: Span,
    of: Of,
}

/// What a mark is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    Subject,
    Rule,
    /// An empty selector, which is no field of one shape, but read in another way.
    Empty,
}

/// What says which shape it is.
enum Named<'n> {
    Annotation { shape: Shape, node: &'n Node<'n> },
    ApiVersion(Shape),
}

impl Reader {
    /// The shape of an object, out of those that its apiVersion and kind have. None: refused.
    pub(crate) fn shape<'n>(&mut self, node: &'n Node<'n>, allowed: &'static [Shape]) -> Option<Shape> {
        let marks = marks(node);
        let annotation = match annotation(node) {
            Some(written) => Some(self.named_shape(written, allowed)?),
            None => None,
        };
        let named = match (annotation, allowed) {
            (Some(named), _) => Some(named),
            (None, [only]) => Some(Named::ApiVersion(*only)),
            (None, _) => None,
        };
        let problems = self.problems.len();
        let shape = match named {
            Some(named) => self.as_named(&named, &marks),
            None => self.by_marks(node, &marks, allowed),
        };
        shape.filter(|_| self.problems.len() == problems)
    }

    fn named_shape<'n>(&mut self, node: &'n Node<'n>, allowed: &'static [Shape]) -> Option<Named<'n>> {
        self.within("metadata", |r| {
            r.within("annotations", |r| {
                r.within(names::SHAPE, |r| {
                    let text = r.string(node)?;
                    let shape = ADMIN.iter().copied().find(|it| value(*it) == text);
                    match shape {
                        Some(shape) if allowed.contains(&shape) => Some(Named::Annotation { shape, node }),
                        Some(shape) => {
                            let known: Vec<&str> = allowed.iter().map(|it| value(*it)).collect();
                            let message = format!("this apiVersion and kind have no shape of {}", title(shape));
                            r.invalid_with_help(node.span, message, format!("known here: {}", known.join(", ")));
                            None
                        }
                        None => {
                            let known = names::SHAPES.join(", ");
                            let help = match near(text, names::SHAPES, 1) {
                                Some(meant) => format!("did you mean `{meant}`?"),
                                None => format!("known here: {known}"),
                            };
                            r.invalid_with_help(node.span, format!("`{text}` is not a shape"), help);
                            None
                        }
                    }
                })
            })
        })
    }

    /// The shape is named: whatever only others have is an error.
    fn as_named(&mut self, named: &Named<'_>, marks: &[Mark]) -> Option<Shape> {
        let (shape, says) = match named {
            Named::Annotation { shape, node } => {
                (*shape, format!("line {} says that the object is written as {}", node.span.line, title(*shape)))
            }
            Named::ApiVersion(shape) => (*shape, format!("under this apiVersion an object is always {}", title(*shape))),
        };
        for mark in marks.iter().filter(|it| it.of != Of::Empty && !it.shapes.contains(&shape)) {
            self.other_shape(mark, &says);
        }
        Some(shape)
    }

    fn other_shape(&mut self, mark: &Mark, says: &str) {
        let outer = self.replace_path(mark.path.clone());
        let message = format!("a field of {}, but {says}", titles(mark.shapes));
        self.problem(Consequence::Refused, "other-shape", mark.span, message, None);
        self.replace_path(outer);
    }

    fn by_marks(&mut self, node: &Node<'_>, marks: &[Mark], allowed: &'static [Shape]) -> Option<Shape> {
        let mut strangers =
            marks.iter().filter(|mark| mark.of != Of::Empty && !mark.shapes.iter().any(|it| allowed.contains(it))).peekable();
        if strangers.peek().is_some() {
            for mark in strangers {
                self.other_shape(mark, "this kind never had that shape; KEP-2091 writes an AdminNetworkPolicy with `priority: 0`");
            }
            return None;
        }
        let agrees = |shape: Shape| marks.iter().all(|mark| mark.shapes.contains(&shape));
        match allowed.iter().copied().find(|it| agrees(*it)) {
            Some(shape) => Some(shape),
            None => {
                self.mixed(node, marks, allowed);
                None
            }
        }
    }

    /// Refuses an object with fields of two shapes, and prints both readings.
    fn mixed(&mut self, node: &Node<'_>, marks: &[Mark], allowed: &'static [Shape]) {
        // The subject says most, since every policy has one.
        let support = |shape: Shape| {
            let agreeing = || marks.iter().filter(|mark| mark.shapes.contains(&shape));
            (agreeing().any(|mark| mark.of == Of::Subject), agreeing().count())
        };
        let Some(first) = allowed.iter().copied().rev().max_by_key(|it| support(*it)) else { return };
        let Some(against) = marks.iter().find(|mark| !mark.shapes.contains(&first)) else { return };
        let Some(second) = allowed.iter().copied().filter(|it| against.shapes.contains(it)).rev().max_by_key(|it| support(*it)) else {
            return;
        };
        let mut for_first = marks.iter().filter(|mark| mark.shapes.contains(&first));
        let telling = for_first.clone().find(|mark| !mark.shapes.contains(&second)).or_else(|| for_first.next());
        let Some(telling) = telling else { return };
        let priority = node.get("spec").and_then(|it| it.get("priority"));
        let message = format!(
            "written in two shapes at once: `{}` is of {}, `{}` is of {}; {}; {}; nothing of it counts",
            telling.path,
            titles(telling.shapes),
            against.path,
            titles(against.shapes),
            reading(first, second, priority),
            reading(second, first, priority),
        );
        let help = Some("keep the fields of one shape".to_owned());
        self.within("spec", |r| r.problem(Consequence::Refused, "mixed-shapes", against.span, message, help));
    }
}

/// The value of our annotation.
fn annotation<'n>(node: &'n Node<'n>) -> Option<&'n Node<'n>> {
    node.get("metadata")?.get("annotations")?.get(names::SHAPE)
}

/// What an object means in one shape, where the other reads it differently.
fn reading(shape: Shape, other: Shape, priority: Option<&Node<'_>>) -> String {
    let title = title(shape);
    let number = match priority.map(|it| &it.value) {
        Some(Value::Int(number)) => Some(*number),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Str(_) | Value::List(_) | Value::Map(_)) | None => None,
    };
    match (shape, other, number) {
        (Shape::Early, Shape::Late, _) => {
            format!("as {title}: `namespaces` holds namespaceSelector, sameLabels or notSameLabels, and selects nothing without them")
        }
        (Shape::Late, Shape::Early, _) => format!("as {title}: `namespaces` is a selector itself, and selects all when it is empty"),
        (Shape::Kep2091, _, Some(0)) => format!("as {title}: priority 0 is Baseline, asked after every NetworkPolicy"),
        (Shape::Kep2091, _, Some(number)) => format!("as {title}: priority {number} is {}, the larger one wins", strength(1000 - number)),
        (Shape::Kep2091, _, None) => format!("as {title}: the larger priority wins"),
        (Shape::Only | Shape::Early | Shape::Late, _, Some(number)) => {
            format!("as {title}: priority {number} is {}, the smaller one wins", strength(number))
        }
        (Shape::Only | Shape::Early | Shape::Late, _, None) => format!("as {title}: the smaller priority wins"),
    }
}

fn strength(rank: i64) -> &'static str {
    match rank {
        ..400 => "strong",
        400..=600 => "neither strong nor weak",
        601.. => "weak",
    }
}

/// A shape as users know it.
fn title(shape: Shape) -> &'static str {
    match shape {
        Shape::Only => "its only shape",
        Shape::Early => "v0.1.0",
        Shape::Late => "v0.1.7",
        Shape::Kep2091 => "KEP-2091",
    }
}

fn titles(shapes: &[Shape]) -> String {
    let mut shapes = shapes.to_vec();
    shapes.sort_unstable();
    let titles: Vec<&str> = shapes.into_iter().map(title).collect();
    titles.join(" and ")
}

/// How the annotation names a shape.
fn value(shape: Shape) -> &'static str {
    match shape {
        Shape::Only => "",
        Shape::Early => names::SHAPE_EARLY,
        Shape::Late => names::SHAPE_LATE,
        Shape::Kep2091 => names::SHAPE_KEP2091,
    }
}

/// Every field that says something about the shape, in the order of the walk.
fn marks(object: &Node<'_>) -> Vec<Mark> {
    let mut marks = Vec::new();
    let Some(spec) = object.get("spec") else { return marks };
    let path = FieldPath::default().field("spec");
    if let Some(subject) = spec.get("subject") {
        mark(&mut marks, Of::Subject, subject, &path.clone().field("subject"), subject_field);
    }
    for (list, peers) in [("ingress", "from"), ("egress", "to")] {
        for (at, rule) in items(spec, list).enumerate() {
            let path = path.clone().field(list).index(at);
            mark(&mut marks, Of::Rule, rule, &path, rule_field);
            for (at, peer) in items(rule, peers).enumerate() {
                mark_peer(&mut marks, peer, &path.clone().field(peers).index(at));
            }
        }
    }
    marks
}

fn mark_peer(marks: &mut Vec<Mark>, peer: &Node<'_>, path: &FieldPath) {
    mark(marks, Of::Rule, peer, path, peer_field);
    if let Some(namespaces) = peer.get("namespaces") {
        let path = path.clone().field("namespaces");
        if matches!(&namespaces.value, Value::Map(entries) if entries.is_empty()) {
            marks.push(Mark { shapes: ALL_NAMESPACES, path: path.clone(), span: namespaces.span, of: Of::Empty });
        }
        mark(marks, Of::Rule, namespaces, &path, namespaces_field);
    }
    if let Some(pods) = peer.get("pods") {
        mark(marks, Of::Rule, pods, &path.clone().field("pods"), pods_field);
    }
}

fn mark(marks: &mut Vec<Mark>, of: Of, node: &Node<'_>, path: &FieldPath, shapes: fn(&str) -> Option<&'static [Shape]>) {
    let Value::Map(entries) = &node.value else { return };
    let set = entries.iter().filter(|it| it.value.value != Value::Null);
    let known = set.filter_map(|Entry { key, key_span, .. }| shapes(key).map(|shapes| (key, *key_span, shapes)));
    marks.extend(known.map(|(key, span, shapes)| Mark { shapes, path: path.clone().field(key.to_string()), span, of }));
}

fn items<'n, 'a>(node: &'n Node<'a>, list: &str) -> impl Iterator<Item = &'n Node<'a>> {
    let items = match node.get(list).map(|it| &it.value) {
        Some(Value::List(items)) => items.as_slice(),
        Some(Value::Null | Value::Bool(_) | Value::Int(_) | Value::Number(_) | Value::Str(_) | Value::Map(_)) | None => &[],
    };
    items.iter()
}

fn subject_field(key: &str) -> Option<&'static [Shape]> {
    match key {
        "namespaceSelector" | "namespaceAndPodSelector" => Some(KEP2091),
        "namespaces" | "pods" => Some(SHIPPED),
        _ => None,
    }
}

fn rule_field(key: &str) -> Option<&'static [Shape]> {
    match key {
        "l4Selector" => Some(KEP2091),
        "ports" => Some(SHIPPED),
        _ => None,
    }
}

fn peer_field(key: &str) -> Option<&'static [Shape]> {
    match key {
        "namespacedPods" => Some(KEP2091),
        "pods" => Some(SHIPPED),
        "networks" | "nodes" | "domainNames" => Some(LATE),
        _ => None,
    }
}

fn namespaces_field(key: &str) -> Option<&'static [Shape]> {
    match key {
        "self" | "notSelf" => Some(KEP2091),
        "namespaceSelector" | "sameLabels" | "notSameLabels" => Some(SETS),
        "matchLabels" | "matchExpressions" => Some(LATE),
        _ => None,
    }
}

fn pods_field(key: &str) -> Option<&'static [Shape]> {
    match key {
        "namespaces" => Some(EARLY),
        "namespaceSelector" => Some(LATE),
        _ => None,
    }
}
