//! Small changes, each such that it goes wrong without one rule of the protocol.

/// A change of a small cluster. It is made there and back again.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// The rule without which it goes wrong, at least one of both ways.
    pub(crate) rule: &'static str,
    /// What is there before and after.
    pub(crate) both: &'static str,
    pub(crate) old: &'static str,
    pub(crate) new: &'static str,
    pub(crate) edit: Edit,
}

/// What is otherwise in the new ruleset than it was lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Edit {
    Nothing,
    /// What the classes of two addresses are in the old ruleset have each other's number, as after a restart if both want the same.
    SwapClasses(&'static str, &'static str),
    /// Leaves let pass what they dropped and drop what they let pass, as somebody's hand may have left them.
    TurnLeaves,
}

const fn case(name: &'static str, rule: &'static str, both: &'static str, old: &'static str, new: &'static str) -> Case {
    Case { name, rule, both, old, new, edit: Edit::Nothing }
}

pub(crate) const CASES: &[Case] = &[
    case(
        "a policy says something else",
        "what is new is made in a commit before the first that refers to it, and what is old is deleted after a grace",
        "pod s 10.0.0.1 here role=s
         pod q 10.0.9.1 away app=x",
        "policy s role=s ingress app=x@80",
        "policy s role=s ingress app=x@443",
    ),
    case(
        "a block becomes another",
        "addresses are refined before programs ask for them: ranges are in force a moment later than the rest of their commit",
        "pod s 10.0.0.1 here role=s",
        "policy s role=s egress 192.0.2.0/25",
        "policy s role=s egress 192.0.2.64/26 198.51.100.0/24@80",
    ),
    case(
        "one end closes and the other one opens",
        "subjects narrow first and widen after a grace",
        "pod a 10.0.0.1 here role=a
         pod b 10.0.0.2 here role=b",
        "policy a role=a egress role=b
         policy b role=b ingress",
        "policy a role=a egress
         policy b role=b ingress role=a",
    ),
    case(
        "both ends change their port",
        "where neither program is the narrower one, subjects have the meet of both in between",
        "pod a 10.0.0.1 here role=a
         pod b 10.0.0.2 here role=b",
        "policy a role=a egress role=b@80
         policy b role=b ingress role=a@443",
        "policy a role=a egress role=b@443
         policy b role=b ingress role=a@80",
    ),
    case(
        "two pods of the node change their labels",
        "two pods that move at once open no way between them; and all of a table is there before its base chains have rules",
        "policy a role=a egress app=x
         policy b role=b ingress app=y 192.0.2.0/24",
        "pod a 10.0.0.1 here role=a
         pod b 10.0.0.2 here role=b app=x",
        "pod a 10.0.0.1 here role=a app=y
         pod b 10.0.0.2 here role=b",
    ),
    case(
        "two pods that are alike change their labels",
        "two pods that move at once open no way between them, also if they are of one kind",
        "policy a role=r egress app=x
         policy b role=r ingress app=y",
        "pod a 10.0.0.1 here role=r app=x
         pod b 10.0.0.2 here role=r app=x",
        "pod a 10.0.0.1 here role=r app=y
         pod b 10.0.0.2 here role=r app=y",
    ),
    case(
        "a policy follows the label of a pod",
        "nobody who changes program loses something by a move in the middle",
        "pod s 10.0.0.1 here role=s
         pod t 10.0.0.2 here role=t
         pod x 10.0.9.2 away app=x
         pod y 10.0.9.3 away app=y
         policy t role=t ingress app=x@80 app=y@443",
        "pod q 10.0.9.1 away app=x
         policy s role=s ingress app=x",
        "pod q 10.0.9.1 away app=y
         policy s role=s ingress app=y",
    ),
    case(
        "a policy follows the label of a pod that nobody else asks for",
        "what old and new programs tell apart has a number of its own for the time between",
        "pod s 10.0.0.1 here role=s
         pod x 10.0.9.2 away app=x
         pod y 10.0.9.3 away app=y",
        "pod q 10.0.9.1 away app=x
         policy s role=s ingress app=x app=y@80",
        "pod q 10.0.9.1 away app=y
         policy s role=s ingress app=x@80 app=y",
    ),
    case(
        "who was denied is let through, and all others no more",
        "programs are compared also by what they do with everybody else",
        "pod a 10.0.0.1 here role=a
         pod b 10.0.0.2 here role=b
         pod x 10.0.9.1 away app=x",
        "deny a role=a egress app=x
         policy b role=b ingress role=a@80",
        "policy a role=a egress app=x
         policy b role=b ingress role=a",
    ),
    case(
        "a Service leads a pod back to itself, and another end denies that",
        "programs are compared also by what they do with the subject itself",
        "pod a 10.0.0.1 here role=a
         pod x 10.0.9.1 away app=x",
        "policy a role=a egress
         deny i role=a ingress role=a",
        "policy a role=a egress app=x
         deny e role=a egress role=a",
    ),
    case(
        "two classes become one",
        "addresses that old programs tell apart do not get one number while these are in force",
        "pod s 10.0.0.1 here role=s
         pod q 10.0.9.1 away app=x tier=w
         pod r 10.0.9.2 away tier=w",
        "policy s role=s ingress app=x",
        "policy s role=s ingress tier=w@443",
    ),
    case(
        "an address becomes a pod while its range changes",
        "an address is known by itself while its range has another class than it should have",
        "pod s 10.0.0.1 here role=s
         pod t 10.0.0.2 here role=t
         policy t role=t ingress app=q",
        "",
        "pod q 10.0.9.1 away app=q
         policy s role=s egress 0.0.0.0/0-10.0.9.0/24 app=q",
    ),
    case(
        "a pod is relabelled, its peer may no more, and its own policy opens",
        "programs widen a grace after classes have moved",
        "pod a 10.0.0.1 here role=a
         policy a role=a egress app=x
         policy x app=x ingress",
        "pod b 10.0.0.2 here app=x",
        "pod b 10.0.0.2 here app=y",
    ),
    case(
        "a pod is relabelled, its own policy opens, and its peer may no more",
        "classes move a grace after programs have narrowed",
        "pod b 10.0.0.2 here role=b
         policy b role=b ingress app=x
         policy x app=x egress",
        "pod a 10.0.0.1 here app=x",
        "pod a 10.0.0.1 here app=y",
    ),
    case(
        "a pod comes",
        "a pod is known only when its program is in force, and its program goes when it is known no more",
        "pod a 10.0.0.1 here role=a
         policy s role=s ingress role=b
         policy t role=s egress role=b",
        "",
        "pod s 10.0.0.2 here role=s",
    ),
    case(
        "a pod comes while another one may more",
        "links are bound and pods get their programs when others narrow, and lose them when others widen",
        "pod a 10.0.0.1 here role=a
         pod q 10.0.9.1 away
         policy s role=s ingress
         policy t role=s egress",
        "policy a role=a egress
         policy b role=a ingress",
        "policy a role=a egress *
         policy b role=a ingress *
         pod s 10.0.0.2 here role=s",
    ),
    case(
        "a pod comes that may call nobody, and its peer lets it in by its label",
        "a pod comes at once only if its egress denies nothing",
        "pod b 10.0.0.1 here role=b
         policy b role=b ingress role=s
         policy s role=s egress",
        "",
        "pod s 10.0.0.2 here role=s",
    ),
    case(
        "a pod comes that may call all but one, and that one lets it in by its label",
        "a pod comes at once only if its egress denies nobody",
        "pod b 10.0.0.1 here role=b
         policy b role=b ingress role=s
         deny s role=s egress role=b",
        "",
        "pod s 10.0.0.2 here role=s",
    ),
    case(
        "a pod comes that may call anybody, and its peers treat it otherwise than its range",
        "what comes at once is read in the order in which it is asked",
        "pod a 10.0.0.1 here role=a
         pod b 10.0.0.2 here role=b
         pod q 10.0.9.1 away app=x
         policy a role=a egress role=s@80
         policy b role=b ingress role=s@443 10.0.0.0/16@80
         policy s role=s ingress role=a@80 app=x@443",
        "",
        "pod s 10.0.0.3 here role=s",
    ),
    case(
        "a pod comes that may call anybody, while another one goes and a third one is relabelled",
        "only pods that come do so at once",
        "pod b 10.0.0.1 here role=b
         policy b role=b ingress role=s role=x@80
         policy s role=s ingress role=b role=x@80
         policy x role=x ingress role=b",
        "pod x 10.0.0.3 here role=x
         pod q 10.0.9.1 away role=x",
        "pod s 10.0.0.2 here role=s
         pod q 10.0.9.1 away role=s",
    ),
    case(
        "a pod comes to a link that no chain stands at, and with a block that is new",
        "ranges are in force a moment later than the rest of their commit",
        "pod b 10.0.0.1 here role=b",
        "policy s role=s ingress 192.0.2.0/25",
        "policy s role=s ingress 192.0.2.64/26
         pod s 10.0.0.2 here role=s",
    ),
    case(
        "an address goes to another pod of the node",
        "a link lets through an address only when the program of its pod is in force",
        "pod a 10.0.0.1 here role=a
         policy s role=s ingress role=b
         policy t role=s egress role=b",
        "pod r 10.0.0.2 here role=r",
        "pod s 10.0.0.2 here role=s",
    ),
    case(
        "an address goes to another pod of the node whose label opens a way",
        "who is known no more meets nothing new",
        "pod b 10.0.0.1 here role=b
         policy b role=b ingress role=s",
        "pod r 10.0.0.2 here role=r",
        "pod s 10.0.0.2 here role=s",
    ),
    Case {
        edit: Edit::SwapClasses("10.0.9.1", "10.0.9.2"),
        ..case(
            "a class has the number of one that is gone",
            "a program whose numbers mean something else is not changed in place",
            "pod s 10.0.0.1 here role=s
             pod q 10.0.9.1 away app=x
             policy s role=s ingress app=x",
            "pod r 10.0.9.2 away",
            "",
        )
    },
    Case {
        edit: Edit::TurnLeaves,
        ..case(
            "leaves say the opposite",
            "a chain whose rules are others is not changed in place",
            "pod a 10.0.0.1 here role=a
             pod b 10.0.0.2 here role=b
             policy a role=a egress
             policy b role=b ingress role=a",
            "",
            "",
        )
    },
];
