//! Compares Kubernetes quantities and Go durations by value: "1000m" is "1", "60s" is "1m0s".
//!
//! Invariant: two texts that do not both parse are never equal here. Sources: apimachinery
//! `api/resource/quantity.go` (suffixes), Go `time.ParseDuration` (units).

use serde_json::Value;

/// True when both are quantities of the same value. A JSON number is a quantity too: Kubernetes
/// stores `cpu: 1` as "1".
pub(crate) fn same_quantity(left: &Value, right: &Value) -> bool {
    match (quantity(left), quantity(right)) {
        (Some(left), Some(right)) => left == right,
        _ => false,
    }
}

/// A quantity in whole units, rounded up: bytes of `1Gi`, cores of `1500m`. None when it is no
/// quantity, or too large.
pub fn bytes(text: &str) -> Option<i64> {
    let nanos = billionths(text)?;
    let whole = nanos.div_euclid(1_000_000_000);
    let rest = i128::from(nanos.rem_euclid(1_000_000_000) > 0);
    i64::try_from(whole + rest).ok()
}

/// True when both are Go durations of the same length.
pub(crate) fn same_duration(left: &Value, right: &Value) -> bool {
    match (
        left.as_str().and_then(duration_nanos),
        right.as_str().and_then(duration_nanos),
    ) {
        (Some(left), Some(right)) => left == right,
        _ => false,
    }
}

/// In billionths, rounded up as Kubernetes does.
fn quantity(value: &Value) -> Option<i128> {
    match value {
        Value::String(text) => billionths(text),
        Value::Number(number) => billionths(&number.to_string()),
        _ => None,
    }
}

/// A quantity in billionths of a unit, rounded up: no quantity of Kubernetes is finer. None when it is
/// no quantity, or too large.
pub fn billionths(text: &str) -> Option<i128> {
    let end = text
        .find(|c: char| !matches!(c, '0'..='9' | '.' | '+' | '-'))
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (multiplier, exponent): (i128, i32) = match suffix {
        "Ki" => (1 << 10, 0),
        "Mi" => (1 << 20, 0),
        "Gi" => (1 << 30, 0),
        "Ti" => (1 << 40, 0),
        "Pi" => (1 << 50, 0),
        "Ei" => (1 << 60, 0),
        "n" => (1, -9),
        "u" => (1, -6),
        "m" => (1, -3),
        "" => (1, 0),
        "k" => (1, 3),
        "M" => (1, 6),
        "G" => (1, 9),
        "T" => (1, 12),
        "P" => (1, 15),
        "E" => (1, 18),
        _ => (1, suffix.strip_prefix(['e', 'E'])?.parse().ok()?),
    };
    let (mantissa, decimals) = decimal(number)?;
    scale(
        mantissa.checked_mul(multiplier)?,
        exponent.checked_add(9)?.checked_sub(decimals)?,
    )
}

/// "1.50" as 150 with 2 decimals.
fn decimal(text: &str) -> Option<(i128, i32)> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = format!("{whole}{fraction}");
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let value: i128 = digits.parse().ok()?;
    let signed = if text.starts_with('-') { -value } else { value };
    Some((signed, i32::try_from(fraction.len()).ok()?))
}

fn scale(value: i128, exponent: i32) -> Option<i128> {
    let power = 10_i128.checked_pow(exponent.unsigned_abs())?;
    if exponent >= 0 {
        return value.checked_mul(power);
    }
    let rounds_up = value % power != 0 && value > 0;
    Some(value / power + i128::from(rounds_up))
}

fn duration_nanos(text: &str) -> Option<i128> {
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Some(0);
    }
    let mut total = 0_i128;
    let mut parts = 0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        let nanos: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        let (mantissa, decimals) = decimal(number)?;
        total = total.checked_add(scale(mantissa.checked_mul(nanos)?, -decimals)?)?;
        rest = tail;
        parts += 1;
    }
    (parts > 0).then_some(if negative { -total } else { total })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantities_of_one_value_are_equal_however_written() {
        for (left, right) in [
            (json!("1000m"), json!("1")),
            (json!("0.5"), json!("500m")),
            (json!(1), json!("1")),
            (json!(0.25), json!("250m")),
            (json!("1Gi"), json!("1024Mi")),
            (json!("1G"), json!("1e9")),
            (json!("1.5Gi"), json!("1536Mi")),
            (json!("-1"), json!("-1000m")),
            (json!("12E"), json!("12000P")),
        ] {
            assert!(same_quantity(&left, &right), "{left} {right}");
        }
    }

    #[test]
    fn bytes_are_whole_units_rounded_up() {
        for (text, whole) in [
            ("1Gi", Some(1 << 30)),
            ("1.5k", Some(1500)),
            ("1500m", Some(2)),
            ("much", None),
        ] {
            assert_eq!(bytes(text), whole, "{text}");
        }
    }

    #[test]
    fn billionths_keep_what_a_whole_unit_would_round() {
        for (text, nanos) in [("100m", Some(100_000_000)), ("much", None)] {
            assert_eq!(billionths(text), nanos, "{text}");
        }
    }

    #[test]
    fn different_values_and_texts_that_are_no_quantities_differ() {
        for (left, right) in [
            (json!("1Gi"), json!("1G")),
            (json!("1"), json!("1m")),
            (json!("abc"), json!("abc")),
            (json!(""), json!("0")),
            (json!("1.2.3"), json!("1.2.3")),
            (json!("9e99"), json!("9e99")),
        ] {
            assert!(!same_quantity(&left, &right), "{left} {right}");
        }
    }

    #[test]
    fn durations_are_compared_by_length() {
        for (left, right) in [
            ("60s", "1m0s"),
            ("1.5h", "90m"),
            ("0", "0s"),
            ("1h0m0s", "1h"),
        ] {
            assert!(same_duration(&json!(left), &json!(right)), "{left} {right}");
        }
        for (left, right) in [("60s", "61s"), ("1d", "1d"), ("5", "5"), ("", "")] {
            assert!(
                !same_duration(&json!(left), &json!(right)),
                "{left} {right}"
            );
        }
    }
}
