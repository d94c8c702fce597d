//! What is read of a management cluster before Covey is installed in it.
//!
//! Invariant: nothing is written: what the caller may do is asked by a review, of which nothing stays.

use insight::before::Before;
use insight::facts::{ApiAnswer, Facts, Management, NO_ANSWER};
use jiff::Timestamp;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kit_objects::known::Known;
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};

use crate::installation::version;
use crate::reader::Reader;
use crate::request::PAGES;

/// Reads it.
pub async fn read(client: &Client) -> Facts {
    let (api, clock_ahead) = version(client).await;
    let mut facts = Facts {
        now: Timestamp::now(),
        management: Management {
            api,
            clock_ahead,
            ..Management::default()
        },
        ..Facts::default()
    };
    if let ApiAnswer::Failed { .. } = facts.management.api {
        return facts;
    }
    let reader = Reader::default();
    let (classes, nodes) = (Api::all(client.clone()), Api::all(client.clone()));
    let all = ListParams::default;
    let (classes, nodes, kubevirt, has_service_ranges, may_all) = tokio::join!(
        reader.list(&classes, all(), PAGES, "storageclasses"),
        reader.list(&nodes, all(), PAGES, "nodes"),
        kubevirt(&reader, client),
        service_ranges(client),
        may_all(client),
    );
    facts.management.storage_classes = classes;
    facts.before = Some(Before {
        kubevirt,
        nodes,
        has_service_ranges,
        may_all,
    });
    facts.not_allowed = reader.not_allowed();
    facts
}

/// The version of KubeVirt, by its object; absent where the cluster has no such kind, or none of it.
async fn kubevirt(reader: &Reader, client: &Client) -> Known<String> {
    match client.list_api_group_resources("kubevirt.io/v1").await {
        Ok(served) if served.resources.iter().any(|one| one.name == "kubevirts") => {}
        Ok(_) => return Known::Absent,
        Err(kube::Error::Api(status)) if status.code == 404 => return Known::Absent,
        Err(_) => return Known::Unknown { why: NO_ANSWER },
    }
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("kubevirt.io", "v1", "KubeVirt"));
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    match reader
        .list(&api, ListParams::default(), 1, "kubevirts")
        .await
    {
        Known::Known(all) => match all.first() {
            Some(one) => {
                let version = one.data["status"]["observedKubeVirtVersion"].as_str();
                Known::Known(version.unwrap_or_default().to_owned())
            }
            None => Known::Absent,
        },
        Known::Absent => Known::Absent,
        Known::Unknown { why } => Known::Unknown { why },
    }
}

async fn service_ranges(client: &Client) -> Known<bool> {
    match client
        .list_api_group_resources("networking.k8s.io/v1")
        .await
    {
        Ok(served) => {
            let mut all = served.resources.iter();
            Known::Known(all.any(|one| one.name == "servicecidrs"))
        }
        Err(_) => Known::Unknown { why: NO_ANSWER },
    }
}

async fn may_all(client: &Client) -> Known<bool> {
    let any = || Some("*".to_owned());
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(ResourceAttributes {
                group: any(),
                resource: any(),
                verb: any(),
                ..ResourceAttributes::default()
            }),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    match reviews.create(&PostParams::default(), &review).await {
        Ok(answer) => Known::Known(answer.status.is_some_and(|status| status.allowed)),
        Err(_) => Known::Unknown { why: NO_ANSWER },
    }
}
