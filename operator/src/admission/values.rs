//! Values in a body: how many there are, before a tree is made of them.
//!
//! Invariant: nothing is kept of what is counted. A value of three bytes is hundreds in memory, so a bound
//! on bytes alone bounds no memory: 3 MiB of small objects were 800 MiB.

use std::fmt;

use serde::de::{
    DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor,
};

/// Values that a body may hold: numbers, strings, lists, maps and what is in them. A review of a
/// TenantCluster has some hundred; trees of so many values take 40 MiB at most.
pub(super) const MOST: usize = 32 * 1024;

/// Whether the body has few enough values. What is no JSON is left to whoever reads it.
pub(super) fn are_few(body: &[u8]) -> bool {
    let mut left = MOST;
    let mut body = serde_json::Deserializer::from_slice(body);
    let counted = Count { left: &mut left }.deserialize(&mut body);
    counted.is_ok() || left > 0
}

/// Counts down; at nothing left it gives up.
struct Count<'a> {
    left: &'a mut usize,
}

impl<'de> DeserializeSeed<'de> for Count<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if *self.left == 0 {
            return Err(D::Error::custom("too many values"));
        }
        *self.left -= 1;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Count<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Count { left: self.left })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_key::<IgnoredAny>()?.is_some() {
            map.next_value_seed(Count { left: self.left })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(of: &str, count: usize) -> String {
        format!("[{}]", vec![of; count].join(","))
    }

    #[test]
    fn values_count_wherever_they_are() {
        // The list itself is one.
        assert!(are_few(list("1", MOST - 1).as_bytes()));
        assert!(!are_few(list("1", MOST).as_bytes()));
        for of in ["[]", "{}", "\"\"", "null", "true", "-1", "1.5"] {
            assert!(!are_few(list(of, MOST).as_bytes()), "{of}");
        }
        // A map and what is in it.
        assert!(are_few(list(r#"{"a":1}"#, MOST / 2 - 1).as_bytes()));
        assert!(!are_few(list(r#"{"a":1}"#, MOST / 2).as_bytes()));
        assert!(!are_few(list("[[]]", MOST / 2).as_bytes()));
    }

    #[test]
    fn long_strings_and_what_is_no_json_are_not_many_values() {
        let long = format!("[\"{}\"]", "[],{}\\\"".repeat(MOST));
        assert!(are_few(long.as_bytes()));
        for broken in ["", "[1,", "{\"a\"", "x"] {
            assert!(are_few(broken.as_bytes()), "{broken}");
        }
        // Nor does depth cost a stack.
        assert!(are_few("[".repeat(1_000_000).as_bytes()));
    }
}
