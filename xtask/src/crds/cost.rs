//! Whether API servers would find the rules of a schema too expensive.
//!
//! They take the longest list, map and text that the schema allows, and refuse what could cost more than a budget. This is an upper bound of theirs
//! for rules of the sort that we have: one step for each word and sign, once for each item that the rule is evaluated for or goes through.
//!
//! <https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#resource-use-by-validation-functions>

use serde_json::{Map, Value};

/// What one rule may cost.
const RULE: u64 = 10_000_000;
/// What all rules of a schema may cost.
const SCHEMA: u64 = 100_000_000;
/// Ways to go through a list.
const LOOPS: [&str; 6] = ["all", "exists", "exists_one", "filter", "map", "sum"];

/// What is wrong with the rules of a definition.
pub(super) fn problems(definition: &Value) -> Vec<String> {
    let mut rules = Rules::default();
    if let Some(schema) = definition.pointer("/spec/versions/0/schema/openAPIV3Schema") {
        rules.walk(schema, "", Some(1));
    }
    if rules.cost > SCHEMA {
        rules.problems.push(format!("all rules together may cost {}, and {SCHEMA} is the most", rules.cost));
    }
    rules.problems
}

/// What was found so far.
#[derive(Default)]
struct Rules {
    cost: u64,
    problems: Vec<String>,
}

impl Rules {
    /// `times`: how often the schema applies to one object, if there is a bound.
    fn walk(&mut self, schema: &Value, path: &str, times: Option<u64>) {
        let Some(fields) = schema.as_object() else { return };
        for rule in fields.get("x-kubernetes-validations").and_then(Value::as_array).into_iter().flatten() {
            let Some(rule) = rule.get("rule").and_then(Value::as_str) else { continue };
            self.rule(rule, fields, path, times);
        }
        for (name, inner) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
            self.walk(inner, &format!("{path}.{name}"), times);
        }
        for (word, bound) in [("items", "maxItems"), ("additionalProperties", "maxProperties")] {
            if let Some(inner) = fields.get(word) {
                let each = fields.get(bound).and_then(Value::as_u64);
                self.walk(inner, &format!("{path}[]"), times.zip(each).map(|(times, each)| times.saturating_mul(each)));
            }
        }
    }

    fn rule(&mut self, rule: &str, fields: &Map<String, Value>, path: &str, times: Option<u64>) {
        let Some(times) = times else {
            self.problems.push(format!("`{path}`: a rule below a list without a bound: {rule}"));
            return;
        };
        if fields.get("type").and_then(Value::as_str) == Some("string") && !is_bounded(fields) {
            self.problems.push(format!("`{path}`: a rule about a text without a bound: {rule}"));
        }
        let mut passes = 1_u64;
        for (name, inner) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
            let Some(inner) = inner.as_object() else { continue };
            match passes_over(rule, name, inner) {
                Ok(more) => passes = passes.saturating_add(more),
                Err(why) => self.problems.push(format!("`{path}.{name}` {why}: {rule}")),
            }
        }
        let cost = times.saturating_mul(passes).saturating_mul(steps(rule));
        if cost > RULE {
            self.problems.push(format!("`{path}`: may cost {cost}, and {RULE} is the most: {rule}"));
        }
        self.cost = self.cost.saturating_add(cost);
    }
}

/// How many items of a field a rule goes through, or why nobody can tell.
fn passes_over(rule: &str, name: &str, field: &Map<String, Value>) -> Result<u64, &'static str> {
    let mentions = mentions(rule, name);
    let loops: Vec<&Mention<'_>> = mentions.iter().filter(|it| LOOPS.iter().any(|way| it.after.starts_with(&format!(".{way}(")))).collect();
    if loops.iter().any(|it| is_in_a_loop(it.before)) {
        return Err("is gone through again for each item of another list");
    }
    if !loops.is_empty() {
        let most = field.get("maxItems").and_then(Value::as_u64).ok_or("is gone through and has no bound")?;
        return Ok(loops.iter().fold(0, |sum: u64, _| sum.saturating_add(most)));
    }
    if field.contains_key("x-kubernetes-int-or-string") {
        // Whatever it says of its length, it is taken for as long as a request can be.
        let cheap =
            |it: &Mention<'_>| it.before.ends_with("has(") || it.before.ends_with("type(") || it.after.trim_start().starts_with(['<', '>']);
        return if mentions.iter().all(cheap) { Ok(0) } else { Err("is a number or a text of any length, and is read as a whole") };
    }
    let read = mentions.iter().any(|it| !it.before.ends_with("has("));
    let text = field.get("type").and_then(Value::as_str) == Some("string");
    if read && text && !is_bounded(field) { Err("is a text without a bound") } else { Ok(0) }
}

/// Whether a loop begins in this text and does not end.
fn is_in_a_loop(text: &str) -> bool {
    let open = |text: &str| text.matches('(').count() > text.matches(')').count();
    LOOPS.iter().any(|way| text.match_indices(&format!(".{way}(")).any(|(at, _)| text.get(at..).is_some_and(open)))
}

/// A field of `self` in a rule, with what stands around it.
struct Mention<'r> {
    before: &'r str,
    after: &'r str,
}

fn mentions<'r>(rule: &'r str, name: &str) -> Vec<Mention<'r>> {
    let word = format!("self.{name}");
    let found = rule.match_indices(&word).filter_map(|(at, _)| Some((rule.get(..at)?, rule.get(at + word.len()..)?)));
    let whole = found.filter(|(_, after)| !after.starts_with(|next: char| next.is_alphanumeric() || next == '_'));
    whole.map(|(before, after)| Mention { before, after }).collect()
}

fn is_bounded(text: &Map<String, Value>) -> bool {
    ["maxLength", "enum", "format"].iter().any(|it| text.contains_key(*it))
}

/// The words and signs of a rule.
fn steps(rule: &str) -> u64 {
    let mut steps = 0;
    let mut in_word = false;
    for next in rule.chars() {
        let word = next.is_alphanumeric() || next == '_';
        steps += u64::from(if word { !in_word } else { !next.is_whitespace() });
        in_word = word;
    }
    steps
}
