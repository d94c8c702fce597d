//! Reads Kubernetes quantities of storage as bytes.
//!
//! Invariant: a fraction of a byte counts as a whole one, so nobody gets less than was asked.
//! Format: upstream `apimachinery/pkg/api/resource/quantity.go`.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Bytes of the quantity; nothing when it is no quantity, is negative or beyond any disk.
pub fn bytes(quantity: &Quantity) -> Option<u128> {
    let text = quantity.0.strip_prefix('+').unwrap_or(&quantity.0);
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    let (numerator, denominator) = scale(suffix)?;
    let denominator = denominator.checked_mul(power(10, u32::try_from(fraction.len()).ok()?)?)?;
    Some(digits.checked_mul(numerator)?.div_ceil(denominator))
}

/// What the suffix multiplies by, as a fraction.
fn scale(suffix: &str) -> Option<(u128, u128)> {
    let whole = |base, exponent| power(base, exponent).map(|factor| (factor, 1));
    match suffix {
        "" => Some((1, 1)),
        "n" => Some((1, 1_000_000_000)),
        "u" => Some((1, 1_000_000)),
        "m" => Some((1, 1_000)),
        "k" => whole(10, 3),
        "M" => whole(10, 6),
        "G" => whole(10, 9),
        "T" => whole(10, 12),
        "P" => whole(10, 15),
        "E" => whole(10, 18),
        "Ki" => whole(2, 10),
        "Mi" => whole(2, 20),
        "Gi" => whole(2, 30),
        "Ti" => whole(2, 40),
        "Pi" => whole(2, 50),
        "Ei" => whole(2, 60),
        _ => {
            let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
            let factor = power(10, exponent.unsigned_abs())?;
            Some(if exponent < 0 {
                (1, factor)
            } else {
                (factor, 1)
            })
        }
    }
}

fn power(base: u128, exponent: u32) -> Option<u128> {
    base.checked_pow(exponent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_as_the_api_server_writes_them() {
        let table: [(&str, Option<u128>); 16] = [
            ("0", Some(0)),
            ("1073741824", Some(1 << 30)),
            ("1Gi", Some(1 << 30)),
            ("+2Ki", Some(2048)),
            ("1.5Gi", Some(3 << 29)),
            (".5k", Some(500)),
            ("5G", Some(5_000_000_000)),
            ("1e3", Some(1000)),
            ("12E2", Some(1200)),
            ("1E", Some(1_000_000_000_000_000_000)),
            ("100m", Some(1)),
            ("1500m", Some(2)),
            ("25e-1", Some(3)),
            ("-1Gi", None),
            ("Gi", None),
            ("1 Gi", None),
        ];
        for (text, expected) in table {
            assert_eq!(bytes(&Quantity(text.to_owned())), expected, "{text}");
        }
    }
}
