//! Numbers of the kernel's interface, as `linux/netfilter/nf_tables.h`, `nfnetlink.h` and `netlink.h` give them, and the few of nft's own
//! that it needs to print a table well.

/// Message types of `nf_tables`, with the subsystem in the upper byte.
pub(crate) mod message {
    pub(crate) const ERROR: u16 = 2;
    pub(crate) const DONE: u16 = 3;
    pub(crate) const BATCH_BEGIN: u16 = 16;
    pub(crate) const BATCH_END: u16 = 17;
    const SUBSYSTEM: u16 = super::SUBSYSTEM << 8;
    pub(crate) const NEW_TABLE: u16 = SUBSYSTEM;
    pub(crate) const GET_TABLE: u16 = SUBSYSTEM + 1;
    pub(crate) const DELETE_TABLE: u16 = SUBSYSTEM + 2;
    pub(crate) const NEW_CHAIN: u16 = SUBSYSTEM + 3;
    pub(crate) const GET_CHAIN: u16 = SUBSYSTEM + 4;
    pub(crate) const NEW_RULE: u16 = SUBSYSTEM + 6;
    pub(crate) const GET_RULE: u16 = SUBSYSTEM + 7;
    pub(crate) const NEW_SET: u16 = SUBSYSTEM + 9;
    pub(crate) const GET_SET: u16 = SUBSYSTEM + 10;
    pub(crate) const NEW_ELEMENTS: u16 = SUBSYSTEM + 12;
    pub(crate) const GET_ELEMENTS: u16 = SUBSYSTEM + 13;
    pub(crate) const GET_GENERATION: u16 = SUBSYSTEM + 16;
}

/// `NFNL_SUBSYS_NFTABLES`.
pub(crate) const SUBSYSTEM: u16 = 10;
/// `NFPROTO_INET`.
pub(crate) const INET: u8 = 1;

/// Flags of a message.
pub(crate) mod flag {
    pub(crate) const REQUEST: u16 = 1;
    pub(crate) const ACK: u16 = 4;
    /// In a reply: the dump is not of one state.
    pub(crate) const INTERRUPTED: u16 = 0x10;
    pub(crate) const DUMP: u16 = 0x300;
    pub(crate) const CREATE: u16 = 0x400;
    pub(crate) const APPEND: u16 = 0x800;
}

pub(crate) mod table {
    pub(crate) const NAME: u16 = 1;
    pub(crate) const FLAGS: u16 = 2;
    pub(crate) const USERDATA: u16 = 6;
}

pub(crate) mod chain {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const NAME: u16 = 3;
    pub(crate) const HOOK: u16 = 4;
    pub(crate) const POLICY: u16 = 5;
    pub(crate) const TYPE: u16 = 7;
    pub(crate) const HOOK_NUMBER: u16 = 1;
    pub(crate) const HOOK_PRIORITY: u16 = 2;
    pub(crate) const INPUT: u32 = 1;
    pub(crate) const FORWARD: u32 = 2;
    pub(crate) const ACCEPT: u32 = 1;
}

pub(crate) mod rule {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const CHAIN: u16 = 2;
    pub(crate) const EXPRESSIONS: u16 = 4;
    pub(crate) const USERDATA: u16 = 7;
}

pub(crate) mod set {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const NAME: u16 = 2;
    pub(crate) const FLAGS: u16 = 3;
    pub(crate) const KEY_TYPE: u16 = 4;
    pub(crate) const KEY_LENGTH: u16 = 5;
    pub(crate) const DATA_TYPE: u16 = 6;
    pub(crate) const DATA_LENGTH: u16 = 7;
    pub(crate) const DESCRIPTION: u16 = 9;
    pub(crate) const ID: u16 = 10;
    pub(crate) const USERDATA: u16 = 13;
    /// Only of new kernels.
    pub(crate) const COUNT: u16 = 20;
    pub(crate) const DESCRIPTION_SIZE: u16 = 1;
    pub(crate) const ANONYMOUS: u32 = 1;
    pub(crate) const CONSTANT: u32 = 2;
    pub(crate) const INTERVAL: u32 = 4;
    pub(crate) const MAP: u32 = 8;
}

/// A list of elements, and one of them.
pub(crate) mod element {
    pub(crate) const TABLE: u16 = 1;
    pub(crate) const SET: u16 = 2;
    pub(crate) const LIST: u16 = 3;
    pub(crate) const SET_ID: u16 = 4;
    pub(crate) const ITEM: u16 = 1;
    pub(crate) const KEY: u16 = 1;
    pub(crate) const DATA: u16 = 2;
    pub(crate) const FLAGS: u16 = 3;
    pub(crate) const USERDATA: u16 = 6;
    pub(crate) const INTERVAL_END: u32 = 1;
}

/// A value or a verdict in a register or an element.
pub(crate) mod data {
    pub(crate) const VALUE: u16 = 1;
    pub(crate) const VERDICT: u16 = 2;
    pub(crate) const VERDICT_CODE: u16 = 1;
    pub(crate) const VERDICT_CHAIN: u16 = 2;
    pub(crate) const DROP: i32 = 0;
    pub(crate) const ACCEPT: i32 = 1;
    pub(crate) const JUMP: i32 = -3;
    pub(crate) const GOTO: i32 = -4;
    pub(crate) const RETURN: i32 = -5;
}

/// `NFTA_GEN_ID`.
pub(crate) const GENERATION_ID: u16 = 1;

/// Keys of `meta`.
pub(crate) mod meta {
    pub(crate) const PRIORITY: u32 = 2;
    pub(crate) const FAMILY: u32 = 15;
    pub(crate) const PROTOCOL: u32 = 16;
}

/// Types of keys and data as nft numbers them. The kernel only keeps them.
pub(crate) mod kind {
    pub(crate) const IPV4: u32 = 7;
    pub(crate) const IPV6: u32 = 8;
    pub(crate) const PROTOCOL: u32 = 12;
    /// What nft calls `classid`: the packet's priority.
    pub(crate) const CLASS: u32 = 23;
    /// This one is the kernel's.
    pub(crate) const VERDICT: u32 = 0xffff_ff00;
    /// Two in a row.
    pub(crate) const fn pair(of: u32) -> u32 {
        (of << 6) | of
    }
}
