//! Input with something wrong in it: never a panic, never a wider verdict, always a word about it.

#[cfg(test)]
mod documents;
#[cfg(test)]
mod json;
#[cfg(test)]
mod misspelt;
#[cfg(test)]
mod mutation;
#[cfg(test)]
mod scale;
#[cfg(test)]
mod shapes;
#[cfg(test)]
mod values;

/// Reads a text and compares what counts of it, pods before policies, and everything that is said about it but the notes.
#[cfg(test)]
fn check(text: &str, counts: &[&str], said: &[&str]) {
    let read = palisade_testkit::check::snapshot("f.yaml", text);
    let pods = read.model.endpoints.iter().map(|it| it.name.to_string());
    let policies = read.model.policies.iter().map(|it| it.origin.to_string());
    let loud = read.diagnostics.iter().filter(|it| it.severity != palisade_model::Severity::Note);
    let counted: Vec<String> = pods.chain(policies).collect();
    let found: Vec<String> = loud.map(ToString::to_string).collect();
    assert_eq!((counted.join("\n"), found.join("\n")), (counts.join("\n"), said.join("\n")), "{text}");
}
