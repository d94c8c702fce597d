//! A number, or a share of a number, as Deployments take it for their rollouts (`1`, `25%`).
//!
//! Invariant: what is stored is what was given; it becomes a number only against a total.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A number of machines, or a share of them in percent.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(transparent)]
pub struct IntOrPercent(pub IntOrString);

/// What a share looks like; the same pattern stands in the CRD.
pub const PATTERN: &str = "^(100|[1-9]?[0-9])%$";

/// Which way a share that is no whole number goes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Round {
    /// To the next lower number.
    Down,
    /// To the next higher number.
    Up,
}

impl IntOrPercent {
    /// The number of `total`; none when the text is no share, which the CRD's pattern keeps out.
    /// Never negative.
    #[must_use]
    pub fn of(&self, total: i32, round: Round) -> Option<i32> {
        match &self.0 {
            IntOrString::Int(number) => Some((*number).max(0)),
            IntOrString::String(text) => {
                let percent: u8 = text.strip_suffix('%')?.parse().ok()?;
                let hundredths = i64::from(percent) * i64::from(total.max(0));
                let up = match round {
                    Round::Down => 0,
                    Round::Up => 99,
                };
                i32::try_from((hundredths + up) / 100).ok()
            }
        }
    }
}

impl From<i32> for IntOrPercent {
    fn from(number: i32) -> Self {
        Self(IntOrString::Int(number))
    }
}

impl From<&str> for IntOrPercent {
    fn from(text: &str) -> Self {
        Self(IntOrString::String(text.to_owned()))
    }
}

impl JsonSchema for IntOrPercent {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "IntOrPercent".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "x-kubernetes-int-or-string": true,
            "minimum": 0,
            "maximum": 1000,
            "maxLength": 4,
            "pattern": PATTERN,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_itself_and_a_share_is_rounded_as_asked() {
        assert_eq!(IntOrPercent::from(3).of(10, Round::Down), Some(3));
        assert_eq!(IntOrPercent::from(-3).of(10, Round::Down), Some(0));
        for (share, total, down, up) in [
            ("25%", 10, 2, 3),
            ("0%", 7, 0, 0),
            ("100%", 7, 7, 7),
            ("1%", 1, 0, 1),
            ("40%", 0, 0, 0),
        ] {
            let share = IntOrPercent::from(share);
            assert_eq!(share.of(total, Round::Down), Some(down), "{share:?}");
            assert_eq!(share.of(total, Round::Up), Some(up), "{share:?}");
        }
        assert_eq!(IntOrPercent::from("some").of(1, Round::Up), None);
    }
}
