//! Sizes that are asked for, and what a claim asks for then.
//!
//! Invariant: a claim that is made is within the range of its request.

use proptest::prelude::*;

use super::*;

#[test]
fn sizes_are_rounded_up_as_far_as_the_limits_allow() {
    let cases = [
        (0, 0, "fast", GIB),
        (1, 0, "fast", 1 << 20),
        (GIB + 1, 0, "fast", GIB + (1 << 20)),
        (GIB + 1, GIB + 5, "fast", GIB + 1),
        (0, 5 << 20, "fast", 5 << 20),
        (4 * GIB, 0, "small", 4 * GIB),
        (4 * GIB - 1, 0, "small", 4 * GIB),
    ];
    for (required, limit, class, size) in cases {
        let mut request = parameter("class", class);
        request.capacity_range = range(required, limit);
        let wanted = create(&request, &settings(), None).unwrap();
        let claim = serde_json::to_value(&wanted.claim).unwrap();
        let asked = &claim["spec"]["resources"]["requests"]["storage"];
        assert_eq!(
            asked,
            &json!(size.to_string()),
            "{required}..{limit} of {class}"
        );
    }
}

proptest! {
    #[test]
    fn a_claim_that_was_made_is_within_its_range(required in 0..i64::MAX, limit in 0..i64::MAX) {
        let request = with(|r| r.capacity_range = range(required, limit));
        if let Ok(wanted) = create(&request, &settings(), None) {
            let claim = serde_json::to_value(&wanted.claim).unwrap();
            let asked = &claim["spec"]["resources"]["requests"]["storage"];
            let asked: i64 = asked.as_str().unwrap().parse().unwrap();
            prop_assert!(asked > 0 && wanted.range.has(asked));
        } else {
            prop_assert!(limit > 0 && required > limit);
        }
    }
}
