//! Pods that a rule describes by what they have in common with the subject, or by what they have not.

use crate::labels::LabelSelector;

/// Pods of the pod network, seen from a subject. Never host-network pods.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RelativePods {
    /// In these namespaces.
    pub namespaces: RelativeNamespaces,
    /// These of their pods.
    pub pods: RelativeSelector,
}

/// Namespaces, seen from that of the subject.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RelativeNamespaces {
    /// The subject's own.
    Own,
    /// All others.
    Others,
    /// By labels.
    Labelled(RelativeSelector),
}

/// Labels, seen from those of the subject: of its namespace for namespaces, of the pod itself for pods. A subject that lacks one of the keys has
/// no peers by them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RelativeSelector {
    /// These, whatever the subject has.
    Matching(LabelSelector),
    /// Every key is there, with the subject's value. No key: nobody.
    Same(Vec<Box<str>>),
    /// No key has the subject's value: each is missing or has another. No key: nobody.
    NoneSame(Vec<Box<str>>),
    /// Every key is there, and some value is not the subject's. No key: nobody.
    SomeDiffer(Vec<Box<str>>),
}
