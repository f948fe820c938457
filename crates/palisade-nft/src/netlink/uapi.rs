//! Numbers of the kernel's interface, as `linux/netfilter/nf_tables.h`, `nfnetlink.h` and `netlink.h` give them, and the few of nft's own
//! that it needs to print a table well.

/// Message types of `nf_tables`, with the subsystem in the upper byte.
pub mod message {
    pub const ERROR: u16 = 2;
    pub const DONE: u16 = 3;
    pub const BATCH_BEGIN: u16 = 16;
    pub const BATCH_END: u16 = 17;
    const SUBSYSTEM: u16 = super::SUBSYSTEM << 8;
    pub const NEW_TABLE: u16 = SUBSYSTEM;
    pub const GET_TABLE: u16 = SUBSYSTEM + 1;
    pub const DELETE_TABLE: u16 = SUBSYSTEM + 2;
    pub const NEW_CHAIN: u16 = SUBSYSTEM + 3;
    pub const GET_CHAIN: u16 = SUBSYSTEM + 4;
    pub const DELETE_CHAIN: u16 = SUBSYSTEM + 5;
    pub const NEW_RULE: u16 = SUBSYSTEM + 6;
    pub const GET_RULE: u16 = SUBSYSTEM + 7;
    pub const DELETE_RULE: u16 = SUBSYSTEM + 8;
    pub const NEW_SET: u16 = SUBSYSTEM + 9;
    pub const GET_SET: u16 = SUBSYSTEM + 10;
    pub const DELETE_SET: u16 = SUBSYSTEM + 11;
    pub const NEW_ELEMENTS: u16 = SUBSYSTEM + 12;
    pub const GET_ELEMENTS: u16 = SUBSYSTEM + 13;
    pub const DELETE_ELEMENTS: u16 = SUBSYSTEM + 14;
    pub const GET_GENERATION: u16 = SUBSYSTEM + 16;
}

/// `NFNL_SUBSYS_NFTABLES`.
pub const SUBSYSTEM: u16 = 10;
/// The name of our own table in the family `inet`, and of that of frames in the family `netdev`.
pub const TABLE: &str = "palisade";
/// `NFPROTO_INET`.
pub const INET: u8 = 1;
/// `NFPROTO_NETDEV`.
pub const NETDEV: u8 = 5;

/// Flags of a message.
pub mod flag {
    pub const REQUEST: u16 = 1;
    pub const ACK: u16 = 4;
    /// In a reply: the dump is not of one state.
    pub const INTERRUPTED: u16 = 0x10;
    pub const DUMP: u16 = 0x300;
    pub const EXCLUSIVE: u16 = 0x200;
    pub const CREATE: u16 = 0x400;
    pub const APPEND: u16 = 0x800;
}

pub mod table {
    pub const NAME: u16 = 1;
    pub const FLAGS: u16 = 2;
    pub const USERDATA: u16 = 6;
}

pub mod chain {
    pub const TABLE: u16 = 1;
    pub const NAME: u16 = 3;
    pub const HOOK: u16 = 4;
    pub const POLICY: u16 = 5;
    pub const TYPE: u16 = 7;
    pub const HOOK_NUMBER: u16 = 1;
    pub const HOOK_PRIORITY: u16 = 2;
    pub const HOOK_DEVICES: u16 = 4;
    pub const DEVICE_NAME: u16 = 1;
    pub const INPUT: u32 = 1;
    pub const FORWARD: u32 = 2;
    pub const OUTPUT: u32 = 3;
    /// Of the family `inet`.
    pub const INGRESS: u32 = 5;
    /// The same of the family `netdev`.
    pub const NETDEV_INGRESS: u32 = 0;
    pub const ACCEPT: u32 = 1;
}

pub mod rule {
    pub const TABLE: u16 = 1;
    pub const CHAIN: u16 = 2;
    pub const EXPRESSIONS: u16 = 4;
    pub const USERDATA: u16 = 7;
}

pub mod set {
    pub const TABLE: u16 = 1;
    pub const NAME: u16 = 2;
    pub const FLAGS: u16 = 3;
    pub const KEY_TYPE: u16 = 4;
    pub const KEY_LENGTH: u16 = 5;
    pub const DATA_TYPE: u16 = 6;
    pub const DATA_LENGTH: u16 = 7;
    pub const DESCRIPTION: u16 = 9;
    pub const ID: u16 = 10;
    pub const USERDATA: u16 = 13;
    /// Only of new kernels.
    pub const COUNT: u16 = 20;
    pub const DESCRIPTION_SIZE: u16 = 1;
    pub const ANONYMOUS: u32 = 1;
    pub const CONSTANT: u32 = 2;
    pub const INTERVAL: u32 = 4;
    pub const MAP: u32 = 8;
}

/// A list of elements, and one of them.
pub mod element {
    pub const TABLE: u16 = 1;
    pub const SET: u16 = 2;
    pub const LIST: u16 = 3;
    pub const SET_ID: u16 = 4;
    pub const ITEM: u16 = 1;
    pub const KEY: u16 = 1;
    pub const DATA: u16 = 2;
    pub const FLAGS: u16 = 3;
    pub const USERDATA: u16 = 6;
    pub const INTERVAL_END: u32 = 1;
}

/// A value or a verdict in a register or an element.
pub mod data {
    pub const VALUE: u16 = 1;
    pub const VERDICT: u16 = 2;
    pub const VERDICT_CODE: u16 = 1;
    pub const VERDICT_CHAIN: u16 = 2;
    pub const DROP: i32 = 0;
    pub const ACCEPT: i32 = 1;
    pub const JUMP: i32 = -3;
    pub const GOTO: i32 = -4;
    pub const RETURN: i32 = -5;
}

/// `NFNL_BATCH_GENID`.
pub const BATCH_GENERATION: u16 = 1;
/// `NFTA_GEN_ID`.
pub const GENERATION_ID: u16 = 1;

/// Keys of `meta`.
pub mod meta {
    pub const PRIORITY: u32 = 2;
    pub const LINK: u32 = 6;
    /// The link that a packet leaves by.
    pub const OUT_LINK: u32 = 7;
    /// What kind of link a packet comes in by (`ARPHRD_*`).
    pub const LINK_TYPE: u32 = 8;
    pub const FAMILY: u32 = 15;
    pub const PROTOCOL: u32 = 16;
}

/// Types of keys and data as nft numbers them. The kernel only keeps them.
pub mod kind {
    pub const IPV4: u32 = 7;
    pub const IPV6: u32 = 8;
    pub const PROTOCOL: u32 = 12;
    pub const PORT: u32 = 13;
    /// What nft calls `classid`: the packet's priority.
    pub const CLASS: u32 = 23;
    pub const LINK: u32 = 41;
    /// This one is the kernel's.
    pub const VERDICT: u32 = 0xffff_ff00;
    /// Two in a row.
    pub const fn pair(of: u32) -> u32 {
        (of << 6) | of
    }
    /// Two addresses and a protocol.
    pub const fn protocol_of(address: u32) -> u32 {
        (pair(address) << 6) | PROTOCOL
    }
    /// Two addresses, a protocol and two ports.
    pub const fn ports_of(address: u32) -> u32 {
        (protocol_of(address) << 12) | pair(PORT)
    }
    /// A link and something else.
    pub const fn with_link(of: u32) -> u32 {
        (LINK << 6) | of
    }
}
