//! Which accepted connections a policy wants to have logged: the value of `palisade.dev/log`.

use palisade_model::Direction;

/// What a policy wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Logging {
    /// Nothing. What is denied is logged in any case.
    #[default]
    None,
    /// The connections that any of its rules accepts.
    Accepted,
    /// Those that these rules accept: direction and place in its list, from 0.
    Rules(Vec<(Direction, usize)>),
}

/// A rule as the value names it: `ingress#0`.
const SHAPE: &str = "`ingress#N` or `egress#N`, N from 0";

impl Logging {
    /// Reads `none`, `accepted`, or rules with commas between them.
    pub(crate) fn read(text: &str) -> Result<Logging, String> {
        match text.trim() {
            "none" => Ok(Logging::None),
            "accepted" => Ok(Logging::Accepted),
            list => list.split(',').map(|it| rule(it.trim())).collect::<Result<_, _>>().map(Logging::Rules),
        }
    }
}

fn rule(text: &str) -> Result<(Direction, usize), String> {
    let odd = || format!("`{text}` is neither `accepted` nor `none`, and no rule ({SHAPE})");
    let (direction, index) = text.split_once('#').ok_or_else(odd)?;
    let direction = Direction::BOTH.into_iter().find(|it| it.to_string() == direction).ok_or_else(odd)?;
    // A sign would be read as well.
    let plain = index.bytes().all(|it| it.is_ascii_digit());
    index.parse().ok().filter(|_| plain).map(|index| (direction, index)).ok_or_else(odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_none_all_or_a_list_of_rules() {
        assert_eq!(Logging::read("none"), Ok(Logging::None));
        assert_eq!(Logging::read(" accepted "), Ok(Logging::Accepted));
        let rules = vec![(Direction::Ingress, 0), (Direction::Egress, 12)];
        assert_eq!(Logging::read("ingress#0, egress#12"), Ok(Logging::Rules(rules)));
        for odd in ["", "all", "denied", "ingress", "ingress#", "ingress#+1", "ingress#0,", "Ingress#0", "accepted,ingress#0"] {
            assert!(Logging::read(odd).is_err(), "{odd}");
        }
    }
}
