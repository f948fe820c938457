//! Broken objects.

use serde_json::{Value, json};

use crate::objects::Objects;
use crate::paths;
use crate::random::Random;

/// The objects with one or two things wrong in them.
pub fn tree(random: &mut Random, objects: &Objects) -> Objects {
    let mut broken = Value::Array(objects.0.clone());
    for _ in 0..random.of([1, 1, 2]) {
        once(random, &mut broken);
    }
    match broken {
        Value::Array(objects) => Objects(objects),
        other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_)) => Objects(vec![other]),
    }
}

fn once(random: &mut Random, value: &mut Value) {
    let mut places = paths::all(value);
    // Half of all mistakes are in policies.
    if random.percent(50) {
        places.retain(|path| policy_spec(value, path));
    }
    let Some(path) = random.pick(&places).cloned() else { return };
    match random.below(10) {
        0 => drop(paths::take(value, &path)),
        1..4 => rename(random, value, &path),
        4 => move_up(value, &path),
        5 => move_down(random, value, &path),
        6 | 7 => replace(random, value, &path),
        8 => repeat(value, &path),
        _ => {
            if let Some(other) = random.pick(&places) {
                swap(value, &path, other);
            }
        }
    }
}

fn policy_spec(objects: &Value, path: &str) -> bool {
    let mut steps = path.split('/').skip(1);
    let (object, field) = (steps.next().unwrap_or(""), steps.next());
    let kind = objects.pointer(&format!("/{object}/kind")).and_then(Value::as_str);
    field == Some("spec") && kind.is_some_and(|kind| kind.ends_with("NetworkPolicy"))
}

/// Another case, a letter more, less or changed, or two of them swapped.
fn rename(random: &mut Random, value: &mut Value, path: &str) {
    let Some((above, key)) = paths::split(path) else { return };
    let Some(Value::Object(fields)) = value.pointer_mut(above) else { return };
    let mut letters: Vec<char> = key.chars().collect();
    let at = random.below(letters.len());
    match random.below(7) {
        0 => letters = key.to_lowercase().chars().collect(),
        1 => letters = key.to_uppercase().chars().collect(),
        2 if !letters.is_empty() => drop(letters.remove(at)),
        3 => letters.insert(at, 's'),
        4 => letters.push('s'),
        5 if at > 0 => letters.swap(at, at - 1),
        _ => {
            if let Some(letter) = letters.get_mut(at) {
                *letter = random.of(['a', 'x', '-', '_']);
            }
        }
    }
    if let Some(inner) = fields.remove(&key) {
        fields.insert(letters.into_iter().collect(), inner);
    }
}

/// Puts a field beside the map that held it.
fn move_up(value: &mut Value, path: &str) {
    let Some((above, key)) = paths::split(path) else { return };
    let Some((upper, _)) = paths::split(above) else { return };
    let (upper, is_field) = (upper.to_owned(), value.pointer(above).is_some_and(Value::is_object));
    if !is_field {
        return;
    }
    let Some(inner) = paths::take(value, path) else { return };
    match value.pointer_mut(&upper) {
        Some(Value::Object(fields)) => drop(fields.insert(key, inner)),
        Some(Value::Array(items)) => items.push(json!({key: inner})),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) | None => {}
    }
}

/// Puts a field into a map beside it.
fn move_down(random: &mut Random, value: &mut Value, path: &str) {
    let Some((above, key)) = paths::split(path) else { return };
    let Some(Value::Object(fields)) = value.pointer_mut(above) else { return };
    let Some(inner) = fields.remove(&key) else { return };
    let mut maps: Vec<&mut Value> = fields.values_mut().filter(|it| it.is_object()).collect();
    let at = random.below(maps.len());
    if let Some(Value::Object(map)) = maps.get_mut(at) {
        map.insert(key, inner);
    }
}

fn replace(random: &mut Random, value: &mut Value, path: &str) {
    let odd = match random.below(16) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(65536),
        4 => json!(1.5),
        5 => json!(u64::MAX),
        6 => json!(""),
        7 => json!("a"),
        8 => json!("80"),
        9 => json!("10.0.0.0/33"),
        10 => json!([]),
        11 => json!({}),
        12 => json!([null]),
        13 => json!([""]),
        14 => json!([{}]),
        _ => json!({"": ""}),
    };
    if let Some(place) = value.pointer_mut(path) {
        *place = odd;
    }
}

/// Thirty more of a list's item.
fn repeat(value: &mut Value, path: &str) {
    let Some((above, at)) = paths::split(path) else { return };
    let Some(Value::Array(items)) = value.pointer_mut(above) else { return };
    let item = at.parse::<usize>().ok().and_then(|at| items.get(at).cloned());
    if let Some(item) = item.filter(|_| items.len() < 100) {
        items.extend(std::iter::repeat_n(item, 30));
    }
}

fn swap(value: &mut Value, one: &str, other: &str) {
    let inside = |outer: &str, inner: &str| inner.starts_with(outer);
    if inside(one, other) || inside(other, one) {
        return;
    }
    let (Some(first), Some(second)) = (value.pointer(one).cloned(), value.pointer(other).cloned()) else { return };
    for (path, new) in [(one, second), (other, first)] {
        if let Some(place) = value.pointer_mut(path) {
            *place = new;
        }
    }
}
