//! What makes Amazon EC2 a cloud of the contract.
//!
//! Invariant: nothing is decided here; each call is handed on. The external ID of a role follows from the installation and
//! from which ProviderConfig names it, so that a role that trusts one lets no other in.

use std::sync::Arc;

use api::node_pool::{Market, Provider as WantedMachines, ProviderKind};
use api::{Machine, ProviderConfig};
use jiff::Timestamp;
use providers::clock::Clock;
use providers::cloud::{Cloud as Contract, NoClient, Order, requests};
use providers::http_client::BuildError;
use providers::offering::Size;
use providers::{Capabilities, Checked, Inventory, Presence, Refused};

use crate::calls::Endpoints;
use crate::capabilities::CAPABILITIES;
use crate::cloud::Cloud;
use crate::credentials::{Credentials, Keys, WebIdentity};
use crate::leaks::Found;
use crate::schema::number;
use crate::settings::{Place, Role, Wanted};

impl Contract for Cloud {
    const KIND: ProviderKind = ProviderKind::Aws;
    const CAPABILITIES: Capabilities = CAPABILITIES;
    const FIELD: &'static str = "credentials.json";

    type Endpoints = Endpoints;
    type Project = Place;
    type Found = Found;

    fn project(config: &ProviderConfig, installation: &str) -> Option<Place> {
        let wanted = config.spec.aws.as_ref()?;
        let role = wanted.role_arn.clone().map(|arn| Role {
            arn,
            external_id: external_id(config, installation),
        });
        Some(Place {
            installation: installation.to_owned(),
            region: wanted.region.clone(),
            zone: wanted.zone.clone(),
            subnet: wanted.subnet_id.clone(),
            security_groups: wanted.security_group_ids.clone(),
            public_ipv4: wanted.public_ipv4,
            root_device: wanted.root_device.clone(),
            role,
            without_key: match wanted.credentials_secret_name {
                Some(_) => None,
                None => Some(config.metadata.namespace.clone().unwrap_or_default()),
            },
            account: requests::account(config).map(str::to_owned),
        })
    }

    fn open(
        endpoints: &Endpoints,
        credentials: &str,
        project: Place,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, NoClient> {
        let credentials = match &project.without_key {
            Some(namespace) => by_web_identity(&endpoints.web_identity, namespace, &project)?,
            None => by_key(credentials, &project)?,
        };
        // A region that leads elsewhere is kept out by the ProviderConfig's schema, too.
        let endpoints = endpoints.of(&project.region);
        let endpoints = endpoints.ok_or_else(|| BuildError::Endpoint(project.region.clone()))?;
        Ok(Self::new(&endpoints, credentials, project, clock)?)
    }

    /// As it was when its node joined: before, whose it is its tags and its token say alone.
    fn instance(machine: &Machine) -> Option<u64> {
        number(machine.status.as_ref()?.instance.as_deref()?)
    }

    fn disk(wanted: &WantedMachines) -> Option<i64> {
        Some(i64::from(wanted.aws.as_ref()?.disk_gib) << 30)
    }

    fn zone(&self) -> &str {
        &self.place.zone
    }

    async fn check(
        &self,
        types: &[String],
        images: &[String],
        market: Market,
    ) -> Result<Checked, Refused> {
        Self::check(self, types, images, market == Market::Spot).await
    }

    fn known(&self, types: &[String], market: Market) -> Result<Option<Vec<Size>>, Refused> {
        self.known_sizes(types, market == Market::Spot)
    }

    async fn create(&self, order: Order<'_>, user_data: String) -> Result<Presence, Refused> {
        let wanted = wanted(order, user_data);
        Self::create(self, &wanted).await
    }

    async fn list(&self, namespace: &str) -> Result<Inventory, Refused> {
        Self::list(self, Some(namespace)).await
    }

    providers::handed_on!();
}

/// By the key in the Secret, or the role that it takes on.
fn by_key(secret: &str, project: &Place) -> Result<Credentials, NoClient> {
    let keys = Keys::read(secret).map_err(|why| {
        NoClient::Credentials(format!("its field {}: {why}", <Cloud as Contract>::FIELD))
    })?;
    Ok(match project.role.clone() {
        Some(Role { arn, external_id }) => Credentials::Role {
            keys,
            role: arn,
            external_id,
        },
        None => Credentials::Keys(keys),
    })
}

/// By a token of the operator's own account, where the platform lets this namespace take on the role.
fn by_web_identity(
    allowed: &WebIdentity,
    namespace: &str,
    project: &Place,
) -> Result<Credentials, NoClient> {
    let arn = project.role.as_ref().map(|role| role.arn.clone());
    let arn = arn.unwrap_or_default();
    match allowed.lets(namespace, &arn) {
        true => Ok(Credentials::WebIdentity {
            role: arn,
            token: allowed.token.clone(),
        }),
        false => Err(NoClient::NotAllowed {
            object: format!("role {arn}"),
            why: format!("namespace {namespace} may not take it on without a key"),
            mend: format!(
                "set spec.aws.credentialsSecretName of the ProviderConfig, or have the platform add the role to \
                 config.providers.aws.webIdentity.roles.{namespace} of the operator's configuration"
            ),
        }),
    }
}

/// What a role has to ask for that is to trust a ProviderConfig.
fn external_id(config: &ProviderConfig, installation: &str) -> String {
    let of = |part: &Option<String>| part.clone().unwrap_or_default();
    let (namespace, name) = (of(&config.metadata.namespace), of(&config.metadata.name));
    format!("{installation}/{namespace}/{name}")
}

/// The same for one Machine each time: its spec, its request and its age never change, and its user data are stored.
fn wanted(order: Order<'_>, user_data: String) -> Wanted {
    let of_pool = order.machine.spec.provider.aws.clone().unwrap_or_default();
    let since = order.machine.metadata.creation_timestamp.as_ref();
    Wanted {
        owner: order.owner.clone(),
        since: since.map_or(Timestamp::UNIX_EPOCH, |since| since.0),
        size: order.request.type_.clone().unwrap_or_default(),
        image: order.request.image.clone(),
        disk: of_pool.disk_gib.unsigned_abs(),
        is_spot: of_pool.market == Market::Spot,
        user_data,
    }
}

#[cfg(test)]
mod tests {
    use api::machine::MachineRequest;
    use providers::clock::SystemClock;
    use providers::identity::Owner;
    use serde_json::{Value, json};

    use super::*;

    const KEY: &str =
        r#"{"AccessKey": {"AccessKeyId": "AKIA0123456789ABCDEF", "SecretAccessKey": "s3cret"}}"#;

    fn machine(aws: &Value, instance: &str) -> Machine {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "Machine",
            "metadata": { "name": "w-1", "creationTimestamp": "2026-07-01T12:00:00Z" },
            "spec": { "clusterName": "demo", "clusterUID": "c", "poolName": "w", "version": "1.36.2",
                "provider": { "aws": aws } },
            "status": { "instance": instance },
        }))
        .unwrap()
    }

    fn config(role: Option<&str>) -> ProviderConfig {
        serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "ProviderConfig",
            "metadata": { "name": "aws", "namespace": "team-a" },
            "spec": { "aws": {
                "credentialsSecretName": "aws", "roleARN": role, "region": "eu-central-1", "zone": "eu-central-1a",
                "subnetID": "subnet-0123456789abcdef0",
            } },
            "status": { "account": "111111111111/eu-central-1" },
        }))
        .unwrap()
    }

    #[test]
    fn role_is_taken_on_without_a_key_only_where_the_platform_lets_the_namespace() {
        let of = |role: &str, namespace: &str| {
            let mut config = config(Some(role));
            config.metadata.namespace = Some(namespace.to_owned());
            config.spec.aws.as_mut().unwrap().credentials_secret_name = None;
            Cloud::project(&config, "i").unwrap()
        };
        let own = "arn:aws:iam::111111111111:role/team-a";
        let endpoints = Endpoints {
            web_identity: WebIdentity {
                token: "/t".into(),
                roles: [("team-a".to_owned(), vec![own.to_owned()])].into(),
            },
            ..Endpoints::default()
        };
        let open = |place: Place| {
            let clock = Arc::new(SystemClock);
            // What a Secret would have plays no part.
            <Cloud as Contract>::open(&endpoints, KEY, place, clock)
        };
        assert!(open(of(own, "team-a")).is_ok());
        for (role, namespace) in [
            (own, "team-b"),
            ("arn:aws:iam::222222222222:role/team-b", "team-a"),
        ] {
            let Err(NoClient::NotAllowed { object, why, mend }) = open(of(role, namespace)) else {
                panic!("{role} is let be taken on in {namespace}");
            };
            assert!(
                object.contains(role) && why.contains(namespace),
                "{object} {why}"
            );
            assert!(
                mend.contains("config.providers.aws.webIdentity.roles"),
                "{mend}"
            );
        }
        // With a key its own external ID guards it.
        let place = Cloud::project(&config(Some(own)), "i").unwrap();
        assert_eq!(place.without_key, None);
        assert!(open(place).is_ok());
    }

    fn open(credentials: &str, place: Place) -> Result<Cloud, NoClient> {
        let (endpoints, clock) = (Endpoints::default(), Arc::new(SystemClock));
        <Cloud as Contract>::open(&endpoints, credentials, place, clock)
    }

    #[test]
    fn machine_is_asked_for_as_its_own_spec_and_request_say() {
        let request = MachineRequest {
            type_: Some("m7i.large".to_owned()),
            image: "ami-0123456789abcdef0".to_owned(),
            ..MachineRequest::default()
        };
        let of = |aws: &Value| {
            let machine = machine(aws, "");
            let order = Order {
                machine: &machine,
                request: &request,
                owner: &Owner::default(),
            };
            wanted(order, "#cloud-config".to_owned())
        };
        let plain = of(&json!({ "configName": "a", "types": ["m7i.xlarge"] }));
        assert_eq!(plain.size, "m7i.large");
        assert_eq!((plain.disk, plain.is_spot), (30, false));
        assert_eq!(plain.since.to_string(), "2026-07-01T12:00:00Z");
        let spot = json!({ "configName": "a", "types": ["a"], "diskGiB": 80, "market": "Spot" });
        let spot = of(&spot);
        assert_eq!((spot.disk, spot.is_spot), (80, true));
    }

    #[test]
    fn instance_is_the_one_that_joined() {
        let aws = json!({ "configName": "a", "types": ["a"] });
        let known = Cloud::instance(&machine(&aws, "i-0123456789abcdef0"));
        assert_eq!(known, Some(0x1234_5678_9abc_def0));
        assert_eq!(Cloud::instance(&machine(&aws, "42")), None);
        assert_eq!(
            Cloud::disk(&machine(&aws, "").spec.provider),
            Some(30 << 30)
        );
    }

    #[test]
    fn place_is_what_the_provider_config_says() {
        let place = Cloud::project(&config(None), "i").unwrap();
        assert!(place.public_ipv4 && place.security_groups.is_empty());
        assert_eq!(
            (place.root_device.as_str(), place.role),
            ("/dev/xvda", None)
        );
        assert_eq!(place.account.as_deref(), Some("111111111111/eu-central-1"));
    }

    #[test]
    fn role_is_taken_on_with_an_external_id_that_no_other_provider_config_has() {
        let arn = "arn:aws:iam::111111111111:role/covey";
        let of = |namespace: &str, installation: &str| {
            let mut config = config(Some(arn));
            config.metadata.namespace = Some(namespace.to_owned());
            Cloud::project(&config, installation).unwrap().role.unwrap()
        };
        assert_eq!(of("team-a", "i").arn, arn);
        assert_eq!(of("team-a", "i").external_id, "i/team-a/aws");
        assert_ne!(of("team-a", "i"), of("team-b", "i"));
        assert_ne!(of("team-a", "i"), of("team-a", "j"));
    }

    #[test]
    fn secret_without_a_key_lets_nobody_in_and_is_not_repeated() {
        let place = Cloud::project(&config(None), "i").unwrap();
        for credentials in ["", &KEY.replace("AccessKeyId", "s3cret")] {
            let Err(NoClient::Credentials(why)) = open(credentials, place.clone()) else {
                panic!("it is open");
            };
            assert!(why.contains("credentials.json"), "{why}");
            assert!(!why.contains("s3cret"), "{why}");
        }
        assert!(open(KEY, place.clone()).is_ok());
        let elsewhere = Place {
            region: "evil.example.com/".to_owned(),
            ..place
        };
        assert!(matches!(open(KEY, elsewhere), Err(NoClient::Build(_))));
    }
}
