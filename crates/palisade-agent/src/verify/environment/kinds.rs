//! What kinds of findings there are about the environment of our tables: their names, what they mean, what helps.

use palisade_report::v1;

/// What kind of finding it is. The names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EnvironmentKind {
    /// A table of ours that stands beside the own one only while that is replaced.
    TableLeft,
    XdpProgram,
    TcFilter,
    Forwards,
    Duplicates,
    Notrack,
    Flowtable,
    FlowOffload,
    /// Connections end at a program of the node: `tproxy`, `redirect`.
    Tproxy,
    Synproxy,
    /// Addresses or ports are written without connection tracking.
    Rewrites,
    /// Packets may name the stops of their way.
    SourceRouting,
    /// A link made on that of a pod: a macvlan and the like.
    LinkOnLink,
    BridgeNotFiltered,
    Ipvs,
    PodWithoutLink,
    ForwardingOff,
    /// Tables of the older iptables may have rules that are not read.
    LegacyRawTable,
    LegacyTable,
    /// A program on a link that leads to no pod.
    OtherLink,
    /// A link that takes apart what was sent to the node, with any source inside.
    Tunnel,
}

impl EnvironmentKind {
    pub const ALL: [EnvironmentKind; 21] = [
        EnvironmentKind::TableLeft,
        EnvironmentKind::XdpProgram,
        EnvironmentKind::TcFilter,
        EnvironmentKind::Forwards,
        EnvironmentKind::Duplicates,
        EnvironmentKind::Notrack,
        EnvironmentKind::Flowtable,
        EnvironmentKind::FlowOffload,
        EnvironmentKind::Tproxy,
        EnvironmentKind::Synproxy,
        EnvironmentKind::Rewrites,
        EnvironmentKind::SourceRouting,
        EnvironmentKind::LinkOnLink,
        EnvironmentKind::BridgeNotFiltered,
        EnvironmentKind::Ipvs,
        EnvironmentKind::PodWithoutLink,
        EnvironmentKind::ForwardingOff,
        EnvironmentKind::LegacyRawTable,
        EnvironmentKind::LegacyTable,
        EnvironmentKind::OtherLink,
        EnvironmentKind::Tunnel,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            EnvironmentKind::TableLeft => "table-left",
            EnvironmentKind::XdpProgram => "xdp-program",
            EnvironmentKind::TcFilter => "tc-filter",
            EnvironmentKind::Forwards => "forwards",
            EnvironmentKind::Duplicates => "duplicates",
            EnvironmentKind::Notrack => "notrack",
            EnvironmentKind::Flowtable => "flowtable",
            EnvironmentKind::FlowOffload => "flow-offload",
            EnvironmentKind::Tproxy => "tproxy",
            EnvironmentKind::Synproxy => "synproxy",
            EnvironmentKind::Rewrites => "rewrites",
            EnvironmentKind::SourceRouting => "source-routing",
            EnvironmentKind::LinkOnLink => "link-on-link",
            EnvironmentKind::BridgeNotFiltered => "bridge-not-filtered",
            EnvironmentKind::Ipvs => "ipvs",
            EnvironmentKind::PodWithoutLink => "pod-without-link",
            EnvironmentKind::ForwardingOff => "forwarding-off",
            EnvironmentKind::LegacyRawTable => "legacy-raw-table",
            EnvironmentKind::LegacyTable => "legacy-table",
            EnvironmentKind::OtherLink => "other-link",
            EnvironmentKind::Tunnel => "tunnel",
        }
    }

    /// What it means for policy, and what it does.
    pub(super) fn meaning(self) -> (v1::VerifyWeight, v1::VerifyEffect) {
        match self {
            EnvironmentKind::TableLeft | EnvironmentKind::ForwardingOff => (v1::VerifyWeight::Difference, v1::VerifyEffect::Closes),
            EnvironmentKind::LegacyRawTable | EnvironmentKind::LegacyTable | EnvironmentKind::OtherLink | EnvironmentKind::Tunnel => {
                (v1::VerifyWeight::Note, v1::VerifyEffect::Unknown)
            }
            EnvironmentKind::XdpProgram
            | EnvironmentKind::TcFilter
            | EnvironmentKind::Forwards
            | EnvironmentKind::Duplicates
            | EnvironmentKind::Notrack
            | EnvironmentKind::Flowtable
            | EnvironmentKind::FlowOffload
            | EnvironmentKind::Tproxy
            | EnvironmentKind::Synproxy
            | EnvironmentKind::Rewrites
            | EnvironmentKind::SourceRouting
            | EnvironmentKind::LinkOnLink
            | EnvironmentKind::BridgeNotFiltered
            | EnvironmentKind::Ipvs
            | EnvironmentKind::PodWithoutLink => (v1::VerifyWeight::Unenforceable, v1::VerifyEffect::Opens),
        }
    }

    fn help(self) -> &'static str {
        match self {
            EnvironmentKind::TableLeft => "if no change is being made, `palisade verify --repair` takes it away",
            EnvironmentKind::XdpProgram => {
                "take the program off the link (`ip link set dev LINK xdp off`), or have its owner enforce policy"
            }
            EnvironmentKind::TcFilter => "delete the filter (`tc filter del dev LINK …`), or have its owner enforce policy",
            EnvironmentKind::Forwards | EnvironmentKind::Duplicates => "take the rule out, or keep it to links that lead to no pod",
            EnvironmentKind::Notrack => "limit the rule to traffic that is not to or from pods",
            EnvironmentKind::Flowtable | EnvironmentKind::FlowOffload => "take pod links out of the flowtable, or delete it",
            EnvironmentKind::Tproxy => "have the proxy enforce policy, or limit the rule to traffic that is not to or from pods",
            EnvironmentKind::Synproxy => "limit the rule to traffic that is not to or from pods",
            EnvironmentKind::Rewrites => "rewrite with `dnat` or `snat`, or limit the rule to traffic that is not to or from pods",
            EnvironmentKind::SourceRouting => {
                "set net.ipv4.conf.all.accept_source_route, net.ipv6.conf.all.seg6_enabled and rpl_seg_enabled to 0, or those of the links of pods"
            }
            EnvironmentKind::LinkOnLink => "delete the link, or make it on one that leads to no pod",
            EnvironmentKind::BridgeNotFiltered => "load br_netfilter, and set net.bridge.bridge-nf-call-iptables and -ip6tables to 1",
            EnvironmentKind::Ipvs => "run kube-proxy in its nftables or iptables mode",
            EnvironmentKind::PodWithoutLink => "give the pod a veth of this node; macvlan, ipvlan and SR-IOV never meet the node's hooks",
            EnvironmentKind::ForwardingOff => "set net.ipv4.ip_forward and net.ipv6.conf.all.forwarding to 1",
            EnvironmentKind::LegacyRawTable => "look for NOTRACK with `iptables-legacy -t raw -S`, or move to nftables",
            EnvironmentKind::LegacyTable => {
                "look for TEE, TPROXY, REDIRECT and SYNPROXY with `iptables-legacy -t TABLE -S`, or move to nftables"
            }
            EnvironmentKind::Tunnel => {
                "deny pods to send to nodes what the tunnel takes (VXLAN: UDP 4789, of flannel 8472; Geneve: UDP 6081), with a cluster policy whose egress peers are nodes"
            }
            EnvironmentKind::OtherLink => "make sure that it sends nothing to the links of pods",
        }
    }

    pub(super) fn finding(self, object: String, sentence: String) -> v1::VerifyFinding {
        let (weight, effect) = self.meaning();
        v1::VerifyFinding {
            name: self.name().to_owned(),
            weight,
            object,
            sentence,
            effect,
            not_shown: None,
            counter_example: None,
            help: self.help().to_owned(),
        }
    }
}
