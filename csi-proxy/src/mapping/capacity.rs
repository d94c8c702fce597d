//! Capacity that the management cluster lets this tenant cluster have yet: what its quotas leave. How
//! much room there is on disks it does not say.
//!
//! Invariant: pure; of several quotas the one that leaves least decides; one that says nothing about
//! storage decides nothing.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use proto::csi::GetCapacityResponse;

/// The answer of GetCapacity: what is left, and what one volume may have at most; without a limit
/// where nobody says one. The scheduler compares with the second alone where it is said (`binder.go`,
/// `volumeLimit`), so that is never more than what is left.
#[must_use]
pub fn answer(left: Option<i64>, largest: Option<i64>) -> GetCapacityResponse {
    let left = left.unwrap_or(i64::MAX);
    GetCapacityResponse {
        available_capacity: left,
        maximum_volume_size: largest.map(|largest| largest.min(left)),
        minimum_volume_size: None,
    }
}

/// Bytes that claims of a StorageClass may have yet; none where no quota says.
///
/// Resource names: <https://kubernetes.io/docs/concepts/policy/resource-quotas/#storage-resource-quota>
#[must_use]
pub fn left(quotas: &[ResourceQuota], storage_class: &str) -> Option<i64> {
    let of_class =
        |resource: &str| format!("{storage_class}.storageclass.storage.k8s.io/{resource}");
    let all = |resource: &str| {
        let names = [resource.to_owned(), of_class(resource)];
        let lefts = quotas
            .iter()
            .flat_map(move |quota| names.clone().map(|name| left_of(quota, &name)));
        lefts.flatten().min()
    };
    match all("persistentvolumeclaims") {
        Some(..=0) => Some(0),
        _ => all("requests.storage"),
    }
}

/// What one quota leaves of one resource. Before it was counted for the first time, all of it.
fn left_of(quota: &ResourceQuota, resource: &str) -> Option<i64> {
    let amount = |amounts: Option<&BTreeMap<String, Quantity>>| {
        let amount = amounts.and_then(|amounts| amounts.get(resource))?;
        kit_objects::quantity::bytes(&amount.0)
    };
    let status = quota.status.as_ref();
    let hard = amount(quota.spec.as_ref().and_then(|spec| spec.hard.as_ref()))?;
    let used = amount(status.and_then(|status| status.used.as_ref())).unwrap_or(0);
    Some(hard.saturating_sub(used).max(0))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn quota(hard: &[(&str, &str)], used: &[(&str, &str)]) -> ResourceQuota {
        let map = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            pairs.iter().map(owned).collect()
        };
        serde_json::from_value(json!({
            "spec": { "hard": map(hard) }, "status": { "used": map(used) },
        }))
        .unwrap()
    }

    #[test]
    fn largest_volume_is_never_larger_than_what_is_left_and_nothing_said_is_no_limit() {
        let told = |left, largest| {
            let answer = answer(left, largest);
            (answer.available_capacity, answer.maximum_volume_size)
        };
        assert_eq!(told(None, None), (i64::MAX, None));
        assert_eq!(told(None, Some(4)), (i64::MAX, Some(4)));
        assert_eq!(told(Some(3), Some(4)), (3, Some(3)));
        assert_eq!(told(Some(0), Some(4)), (0, Some(0)));
        assert_eq!(told(Some(9), Some(4)), (9, Some(4)));
    }

    #[test]
    fn the_quota_that_leaves_least_decides() {
        const CLASS: &str = "fast.storageclass.storage.k8s.io/requests.storage";
        let all = quota(
            &[("requests.storage", "10Gi")],
            &[("requests.storage", "4Gi")],
        );
        let class = quota(&[(CLASS, "5Gi")], &[(CLASS, "4Gi")]);
        let other = quota(&[("cpu", "4")], &[("cpu", "1")]);
        let gib = |n: i64| Some(n << 30);
        assert_eq!(left(&[], "fast"), None);
        assert_eq!(left(std::slice::from_ref(&other), "fast"), None);
        assert_eq!(left(&[all.clone(), other], "fast"), gib(6));
        assert_eq!(left(&[all.clone(), class.clone()], "fast"), gib(1));
        assert_eq!(left(&[all, class], "slow"), gib(6));
    }

    #[test]
    fn nothing_is_left_where_the_number_of_claims_is_used_up_or_quotas_shrank() {
        let claims = quota(
            &[("persistentvolumeclaims", "3"), ("requests.storage", "1Ti")],
            &[("persistentvolumeclaims", "3")],
        );
        assert_eq!(left(&[claims], "fast"), Some(0));
        let over = quota(
            &[("requests.storage", "1Gi")],
            &[("requests.storage", "2Gi")],
        );
        assert_eq!(left(&[over], "fast"), Some(0));
        let new = quota(&[("requests.storage", "1Gi")], &[]);
        assert_eq!(left(&[new], "fast"), Some(1 << 30));
    }
}
