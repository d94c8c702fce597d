//! The most bytes of etcd's database: the sentence for each mistake, and what is in force.

use super::*;
use crate::validate::warnings;

fn quota(quota: &Value, size: &str) -> Value {
    etcd(&json!({"quotaBackendBytes": quota, "storage": {"size": size}}))
}

#[test]
fn quota_that_etcd_or_its_volume_cannot_have_is_refused() {
    let field = "spec.etcd.quotaBackendBytes";
    for outside in ["511Mi", "8193Mi", "0", "10Ti"] {
        assert_eq!(
            seen(&quota(&json!(outside), "20Gi")),
            [format!(
                "{field}: {outside} is not within 512Mi and 8Gi: choose a size between them"
            )]
        );
    }
    assert_eq!(
        seen(&quota(&json!("1537Mi"), "2Gi")),
        [format!(
            "{field}: 1537Mi and 512Mi for log and snapshots are more than a volume of 2Gi holds: choose \
             less, or raise spec.etcd.storage.size"
        )]
    );
    for malformed in ["much", "-1Gi", "", "1000000000500m"] {
        assert_eq!(seen(&quota(&json!(malformed), "2Gi")).len(), 1);
    }
    // Of a volume that is wrong nothing else is said.
    assert_eq!(seen(&quota(&json!("1Gi"), "large")).len(), 1);
    for (fine, size) in [
        (json!("512Mi"), "1Gi"),
        (json!("1536Mi"), "2Gi"),
        (json!("8Gi"), "9Gi"),
        (json!(1_073_741_824), "2Gi"),
    ] {
        assert_eq!(seen(&quota(&fine, size)), [""; 0], "{fine}");
    }
}

#[test]
fn quota_is_what_was_asked_for_in_bytes() {
    let valid = validate(&tc(&quota(&json!("1536Mi"), "4Gi")), &Settings::default()).unwrap();
    assert_eq!(valid.etcd.quota_backend_bytes, Some(1_610_612_736));
    let valid = validate(&tc(&json!({})), &Settings::default()).unwrap();
    assert_eq!(valid.etcd.quota_backend_bytes, None);
}

#[test]
fn database_that_could_not_be_defragmented_deserves_a_word() {
    let said = |asked: &str| warnings(&tc(&quota(&json!(asked), "2Gi")), &Settings::default());
    assert_eq!(said("1Gi"), [""; 0]);
    assert_eq!(
        said("1025Mi"),
        [
            "spec.etcd.quotaBackendBytes: 1025Mi is more than half of 2Gi: a full database cannot be \
          defragmented there, which takes a second copy"
        ]
    );
}
