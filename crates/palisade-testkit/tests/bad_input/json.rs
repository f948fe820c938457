//! Objects with something wrong in them, read from JSON as an API server sends it, and from the same text as YAML.

use std::fs;
use std::path::Path;

use palisade_api::tree::Span;
use palisade_api::{Object, json, read_object, yaml};
use palisade_testkit::generate::generate;
use palisade_testkit::mutate;
use palisade_testkit::objects::Objects;
use palisade_testkit::random::Random;
use palisade_testkit::scenario::all;
use serde_json::{Value, json};

/// Mutations of each manifest.
const ROUNDS: u64 = 3;

#[test]
fn a_mutated_object_has_the_same_problems_as_json_and_as_yaml() {
    let scenarios = all(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios")).unwrap();
    let written = scenarios.iter().map(|it| Objects::parse(&fs::read_to_string(it.cluster()).unwrap()).unwrap());
    let corpus: Vec<Objects> = written.chain((0..60).map(|seed| generate(seed).objects)).collect();
    let (mut compared, mut with_problems) = (0, 0);
    for (at, objects) in corpus.iter().enumerate() {
        for round in 0..ROUNDS {
            let random = &mut Random::new(ROUNDS * u64::try_from(at).unwrap() + round);
            for object in mutate::tree(random, objects).0.iter().map(with_what_servers_add).filter(Value::is_object) {
                let Some(problems) = compare(&object.to_string()) else { continue };
                compared += 1;
                with_problems += usize::from(problems > 0);
            }
        }
    }
    assert!(compared > 10_000 && with_problems > 500, "{compared} compared, {with_problems} with problems");
}

/// The object with large fields that the JSON reader skips, and with misspelt fields beside them that it must not skip.
fn with_what_servers_add(object: &Value) -> Value {
    let mut object = object.clone();
    let many = json!([{ "name": "x", "env": [{ "name": "A", "value": "b" }] }]);
    for (parent, field) in [
        ("/metadata", "managedFields"),
        ("/spec", "volumes"),
        ("/spec", "hostNetwrok"),
        ("/status", "containerStatuses"),
        ("/status", "podIPz"),
        ("/spec/containers/0", "env"),
        ("/spec/containers/0", "port"),
        ("/spec/template/spec", "volumes"),
        ("/spec/template/spec/containers/0", "prots"),
    ] {
        let misspelt = matches!(field, "hostNetwrok" | "podIPz" | "port" | "prots");
        let parent = object.pointer_mut(parent).and_then(Value::as_object_mut);
        // A misspelt field refuses the object, so that only a part of the objects gets it.
        let wanted = |it: &serde_json::Map<String, Value>| !misspelt || it.len().is_multiple_of(3);
        if let Some(parent) = parent.filter(|it| wanted(it)) {
            parent.entry(field).or_insert_with(|| many.clone());
        }
    }
    object
}

/// Compares both readings of a text, and says how many problems they have. None: the text is no YAML, whose keys are limited in length.
fn compare(text: &str) -> Option<usize> {
    let tree = yaml::documents(text).next()?.ok()?;
    let (yaml, json) = (without_positions(read_object(&tree)), without_positions(json::object(text.as_bytes(), None).unwrap()));
    assert_eq!(json, yaml, "{text}");
    Some(json.problems.len())
}

fn without_positions(mut object: Object) -> Object {
    object.problems.iter_mut().for_each(|it| it.span = Span::default());
    object
}
