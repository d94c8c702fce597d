//! What is wrong with what a Service of the management cluster is given: its class, its labels, and ranges of
//! addresses.
//!
//! Invariant: each sentence says what to write instead.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::text;
use crate::validate::scheduling::{malformed_key, malformed_value};

/// What is wrong with a `loadBalancerClass`.
pub(super) fn class(class: &str) -> Option<String> {
    (!text::is_qualified_name(class))
        .then(|| format!("\"{class}\" is not a class: write a name such as example.com/internal"))
}

/// What is wrong with a label that a user sets.
pub(super) fn label(key: &str, value: &str) -> Option<String> {
    if !text::is_qualified_name(key) {
        Some(malformed_key(key))
    } else if !text::is_label_value(value) {
        Some(malformed_value(value))
    } else if text::is_ours(key) {
        Some(format!("\"{key}\" is written by Covey itself: remove it"))
    } else {
        None
    }
}

/// A range of addresses, or what is wrong with it.
pub(super) fn range(text: &str) -> Result<IpNet, String> {
    match text.parse::<IpNet>() {
        Ok(range) if range == range.trunc() => Ok(range),
        Ok(range) => Err(format!(
            "{text} starts in the middle of a range: write {}",
            range.trunc()
        )),
        Err(_) => Err(match text.parse::<IpAddr>() {
            Ok(address) => format!("{text} lacks its prefix: write {}", IpNet::from(address)),
            Err(_) => {
                format!(
                    "\"{text}\" is not an address range: write address/prefix, such as 10.0.0.0/8"
                )
            }
        }),
    }
}
