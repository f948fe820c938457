//! A rule, and the choice of rules.

use palisade_model::Severity;

use crate::context::Context;
use crate::finding::Finding;
use crate::rules::RULES;

/// Something that is looked for.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// In kebab case. It is what people write, so it stays.
    pub name: &'static str,
    /// Of the worst that it finds.
    pub severity: Severity,
    /// What it finds, in a sentence.
    pub summary: &'static str,
    /// Why that hurts.
    pub why: &'static str,
    /// What to do about it.
    pub fix: &'static str,
    /// Whether some of it can be repaired without changing a verdict.
    pub fixable: bool,
    /// What it works on.
    pub needs: Needs,
    /// The search.
    pub check: fn(&Context<'_>) -> Vec<Finding>,
}

/// What a rule works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    /// Policies alone tell.
    Policies,
    /// Where no pod was read it would find fault with everything.
    Pods,
}

/// Which rules to hold against objects.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    only: Vec<&'static str>,
    except: Vec<&'static str>,
}

/// A name that no rule has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRule {
    /// The name.
    pub name: String,
    /// The rule that was probably meant.
    pub meant: Option<&'static str>,
}

impl std::fmt::Display for UnknownRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` is not a rule", self.name)?;
        match self.meant {
            Some(meant) => write!(f, "; did you mean `{meant}`?"),
            None => f.write_str("; `palisade lint --explain all` lists them"),
        }
    }
}

impl std::error::Error for UnknownRule {}

impl Rule {
    /// The rule of a name.
    pub fn named(name: &str) -> Result<&'static Rule, UnknownRule> {
        let near = || RULES.iter().map(|it| it.name).find(|it| strsim::osa_distance(it, name) <= 2);
        RULES.iter().find(|it| it.name == name).ok_or_else(|| UnknownRule { name: name.to_owned(), meant: near() })
    }
}

impl Choice {
    /// Those of `only`, or all if that is empty, without those of `except`.
    pub fn of(only: &[String], except: &[String]) -> Result<Choice, UnknownRule> {
        let named = |names: &[String]| names.iter().map(|it| Rule::named(it).map(|rule| rule.name)).collect::<Result<Vec<_>, _>>();
        Ok(Choice { only: named(only)?, except: named(except)? })
    }

    /// The rules, in the order of the table.
    pub fn rules(&self) -> impl Iterator<Item = &'static Rule> + '_ {
        let wanted = |rule: &&Rule| (self.only.is_empty() || self.only.contains(&rule.name)) && !self.except.contains(&rule.name);
        RULES.iter().filter(wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_no_rule_is_refused_with_the_one_that_was_meant() {
        let refused = |name: &str| Choice::of(&[name.to_owned()], &[]).unwrap_err().to_string();
        assert_eq!(refused("two-dashs"), "`two-dashs` is not a rule; did you mean `two-dashes`?");
        assert!(refused("quux").contains("--explain all"));
    }

    #[test]
    fn rules_are_chosen_and_left_out() {
        let names = |only: &[&str], except: &[&str]| {
            let owned = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
            Choice::of(&owned(only), &owned(except)).unwrap().rules().map(|it| it.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&[], &[]).len(), RULES.len());
        assert_eq!(names(&["two-dashes"], &[]), ["two-dashes"]);
        assert_eq!(names(&["two-dashes"], &["two-dashes"]), Vec::<&str>::new());
        assert_eq!(names(&[], &["two-dashes"]).len(), RULES.len() - 1);
    }
}
