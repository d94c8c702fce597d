//! Cases of the alerts about what stands between both clusters.
//!
//! Invariant: each alert has one in which it fires and one in which it does not.

use monitoring::rule::Severity::Ticket;

use crate::case::{ASLEEP, Case, case};

const PENDING: &str = r#"covey_ccm_oldest_pending_seconds{tenant="t",object="address"}"#;
const LAST_CALL: &str = r#"covey_autoscaler_last_call_timestamp_seconds{tenant="t"}"#;
const WORLD_AGE: &str = r#"covey_autoscaler_world_age_seconds{tenant="t"}"#;

/// All of them.
pub(crate) const CASES: &[Case] = &[
    case("CoveyCcmBehind", Ticket, true, 30, &[(PENDING, "0+60x60")]),
    // It catches up again and again.
    case("CoveyCcmBehind", Ticket, false, 30, &[(PENDING, "50x60")]),
    case(
        "CoveyCcmBehind",
        Ticket,
        false,
        30,
        &[(PENDING, "0+60x60"), ASLEEP],
    ),
    case(
        "CoveyCcmNoLeader",
        Ticket,
        true,
        30,
        &[
            (r#"covey_ccm_leader{tenant="t",pod="a"}"#, "0x60"),
            (r#"covey_ccm_leader{tenant="t",pod="b"}"#, "0x60"),
        ],
    ),
    case(
        "CoveyCcmNoLeader",
        Ticket,
        false,
        30,
        &[
            (r#"covey_ccm_leader{tenant="t",pod="a"}"#, "0x60"),
            (r#"covey_ccm_leader{tenant="t",pod="b"}"#, "1x60"),
        ],
    ),
    case(
        "CoveyCsiAttachStuck",
        Ticket,
        true,
        30,
        &[(r#"covey_csi_oldest_attach_seconds{tenant="t"}"#, "0+60x60")],
    ),
    case(
        "CoveyCsiAttachStuck",
        Ticket,
        false,
        30,
        &[(r#"covey_csi_oldest_attach_seconds{tenant="t"}"#, "20x60")],
    ),
    // Time begins at zero.
    case(
        "CoveyAutoscalerStands",
        Ticket,
        true,
        30,
        &[(LAST_CALL, "0x60"), (WORLD_AGE, "0x60")],
    ),
    case(
        "CoveyAutoscalerStands",
        Ticket,
        true,
        30,
        &[(LAST_CALL, "0+60x60"), (WORLD_AGE, "0+60x60")],
    ),
    case(
        "CoveyAutoscalerStands",
        Ticket,
        false,
        30,
        &[(LAST_CALL, "0+60x60"), (WORLD_AGE, "0x60")],
    ),
];
