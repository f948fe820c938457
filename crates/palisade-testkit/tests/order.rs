//! The same objects in any order make the same model.

use std::path::Path;

use palisade_testkit::check::snapshot;
use palisade_testkit::objects::Objects;
use palisade_testkit::scenario::all;

#[test]
fn the_order_of_objects_changes_nothing() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    for scenario in all(&root).unwrap() {
        let objects = Objects::read(&scenario.cluster()).unwrap();
        // What has no name is named by its place.
        if objects.0.iter().any(|it| it.pointer("/metadata/name").is_none()) {
            continue;
        }
        let forwards = snapshot("cluster", &objects.to_json()).model;
        for turn in [1, objects.0.len() / 2] {
            let mut turned = objects.clone();
            turned.0.rotate_left(turn.min(objects.0.len()));
            assert_eq!(snapshot("cluster", &turned.to_json()).model, forwards, "{}: turned by {turn}", scenario.name);
        }
        let mut backwards = objects.clone();
        backwards.0.reverse();
        assert_eq!(snapshot("cluster", &backwards.to_json()).model, forwards, "{}: backwards", scenario.name);
    }
}
