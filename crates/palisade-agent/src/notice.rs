//! What an agent meets that nobody did to it: another version's table, and not enough room for everything.

use std::fmt;

use palisade_kernel::Tracking;
use palisade_nft::Layout;

/// Something that people should know of, and that the agent has seen to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A table of another layout was replaced whole.
    TookOver(Layout),
    /// So many packets were dropped lately because their connection could not be tracked.
    Untracked { packets: u64, tracking: Tracking },
    /// None has been for a while; so many were since the first.
    TracksAgain { packets: u64 },
    /// Notifications of changes were lost, so all of the table is looked at.
    Missed,
    /// A change that could not be made was made after so many attempts.
    Fulfilled { attempts: u64 },
    /// The rulesets that followed changes were not those of a recomputation, which are applied now.
    Mismatch,
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::TookOver(layout) => write!(f, "the table was of {layout}; it was replaced whole by one of {}", Layout::CURRENT),
            Notice::Untracked { packets, tracking: Tracking { connections, most, .. } } => {
                write!(f, "{packets} packets were dropped because their connection could not be tracked; {connections} are")?;
                match most {
                    Some(most) if connections >= most => {
                        write!(f, ", and no more than {most} can be: those live on, and no other can begin")
                    }
                    Some(most) => write!(f, " of {most} that can be"),
                    None => Ok(()),
                }
            }
            Notice::TracksAgain { packets } => write!(f, "connections can be tracked again; {packets} packets were dropped meanwhile"),
            Notice::Missed => write!(f, "notifications of changes were lost; the whole table was looked at"),
            Notice::Fulfilled { attempts } => {
                write!(f, "policy is in force that could not be before, after {attempts} attempts that failed")
            }
            Notice::Mismatch => write!(f, "a recomputation from scratch gave another ruleset than the one in force; it is applied"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_a_sentence() {
        let untracked = |connections, most| {
            let tracking = Tracking { connections, most, ..Tracking::default() };
            Notice::Untracked { packets: 3, tracking }.to_string()
        };
        let begins = "3 packets were dropped because their connection could not be tracked; 10 are";
        assert_eq!(untracked(10, None), begins);
        assert_eq!(untracked(10, Some(20)), format!("{begins} of 20 that can be"));
        assert_eq!(untracked(10, Some(10)), format!("{begins}, and no more than 10 can be: those live on, and no other can begin"));
        let layout = Notice::TookOver(Layout::Version(7)).to_string();
        assert_eq!(layout, "the table was of layout 7; it was replaced whole by one of layout 1");
    }
}
