//! Reads Kubernetes quantities of storage as bytes.
//!
//! Invariant: a fraction of a byte counts as a whole one, so nobody gets less than was asked.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

/// Bytes of the quantity; nothing when it is no quantity, is negative or beyond any disk.
pub fn bytes(quantity: &Quantity) -> Option<u128> {
    u128::try_from(kit_objects::quantity::bytes(&quantity.0)?).ok()
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
