//! The clouds that are played: what tells them apart.
//!
//! Invariant: limits are what each vendor publishes for one account, project or subscription; nothing here knows what the
//! clients hold themselves to.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use api::ProviderConfig;
use fake_clouds::aws::FakeAws;
use fake_clouds::azure::FakeAzure;
use fake_clouds::clock::VirtualClock;
use fake_clouds::faults::{Fault, Script};
use fake_clouds::gcp::FakeGcp;
use fake_clouds::hetzner::FakeHetzner;
use fake_clouds::journal::{Entry, Event, Journal};
use jiff::Timestamp;
use providers::clock::Clock;
use providers::cloud::Cloud;
use providers::identity::MACHINE_UID;
use providers::tags::SPELLED_MACHINE_UID;
use serde_json::{Value, json};

use crate::machine::INSTALLATION;

/// Longer than a client waits for an answer.
const LONG: Duration = Duration::from_secs(60);
/// Of each cloud so many machines fit.
const ROOM: usize = 100_000;

/// The fakes' clock, as clients are told it.
struct Told(VirtualClock);

impl Clock for Told {
    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn wait(&self, time: Duration) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(self.0.wait(time))
    }
}

/// A cloud that is played.
pub(crate) trait Played: Sized + Send + Sync + 'static {
    /// Its client.
    type Cloud: Cloud;
    /// What the report calls it.
    const NAME: &'static str;
    /// What the journal calls a machine, and what is made with it.
    const KINDS: &'static [&'static str];
    /// The label that says whose a thing is.
    const LABEL: &'static str;
    /// Size of the machines.
    const SIZE: &'static str;
    /// Image of the machines.
    const IMAGE: &'static str;

    /// One with an account.
    fn start(clock: VirtualClock) -> impl Future<Output = Result<Self>> + Send;
    /// What a ProviderConfig says of it.
    fn spec() -> Value;
    /// Where its APIs are.
    fn endpoints(&self) -> <Self::Cloud as Cloud>::Endpoints;
    /// What lets in.
    fn credentials(&self) -> String;
    /// What goes wrong from now on.
    fn play(&self, script: Script);
    /// It has room for many machines, and long pages.
    fn widen(&self);
    /// Number of requests so far.
    fn requests(&self) -> usize;
    /// What came and went from the `from`th event on, without what time brings.
    fn events(&self, from: usize) -> Vec<Event>;
    /// All of it, with what time brought.
    fn journal(&self) -> Journal;
    /// The codes of its own faults that did nothing, each with its status.
    fn refusals() -> &'static [(u16, &'static str)];
    /// Code of its own that says that it was asked too often, with its status.
    fn throttled() -> (u16, &'static str);
    /// What a request is counted by, and how many of that are let in an hour.
    fn limit(entry: &Entry) -> (&'static str, u32);

    /// What a pool says of it.
    fn provider() -> Value {
        json!({ Self::NAME: { "configName": Self::NAME, "types": [Self::SIZE] } })
    }

    /// A client that remembers nothing.
    fn client(&self, clock: &VirtualClock) -> Result<Self::Cloud> {
        let config: ProviderConfig = serde_json::from_value(json!({
            "apiVersion": "covey.dev/v1alpha1", "kind": "ProviderConfig",
            "metadata": { "name": Self::NAME, "namespace": "team-a" }, "spec": { Self::NAME: Self::spec() },
        }))
        .context("a ProviderConfig has other fields now")?;
        let project = <Self::Cloud as Cloud>::project(&config, INSTALLATION);
        let project = project.context("a ProviderConfig of another cloud")?;
        let clock = Arc::new(Told(clock.clone()));
        let (endpoints, credentials) = (self.endpoints(), self.credentials());
        let opened = <Self::Cloud as Cloud>::open(&endpoints, &credentials, project, clock);
        opened.map_err(|why| anyhow::anyhow!("{}: no client: {why:?}", Self::NAME))
    }

    /// Everything that goes wrong with one request.
    fn faults() -> Vec<Fault> {
        let (status, code) = Self::throttled();
        let throttled = |retry_after| Fault::Refused {
            status,
            code,
            retry_after,
        };
        let mut all = vec![
            Fault::LostRequest,
            Fault::LostAnswer,
            Fault::CutAnswer,
            Fault::Garbage,
            Fault::StuckBefore(LONG),
            Fault::StuckAfter(LONG),
            Fault::Late(LONG),
            Fault::EndlessPages,
            throttled(None),
            throttled(Some(20)),
            Fault::DoneBut {
                status: 504,
                code: "",
            },
            Fault::refused(502, ""),
        ];
        let own = Self::refusals().iter();
        all.extend(own.map(|(status, code)| Fault::refused(*status, code)));
        let down = Self::refusals().iter().filter(|(status, _)| *status >= 500);
        all.extend(down.map(|(status, code)| Fault::DoneBut {
            status: *status,
            code,
        }));
        all
    }
}

/// Amazon Web Services.
pub(crate) struct Aws(FakeAws);
/// Azure.
pub(crate) struct Azure(FakeAzure);
/// The Google Cloud.
pub(crate) struct Gcp(FakeGcp);
/// The Hetzner Cloud.
pub(crate) struct Hetzner(FakeHetzner);

/// What each fake has under the same names.
macro_rules! played {
    () => {
        fn play(&self, script: Script) {
            self.0.contents().script = script;
        }

        fn requests(&self) -> usize {
            self.0.contents().journal.entries.len()
        }

        fn events(&self, from: usize) -> Vec<Event> {
            let contents = self.0.contents();
            let events = contents.journal.events.get(from..);
            events.unwrap_or_default().to_vec()
        }

        fn journal(&self) -> Journal {
            self.0.journal()
        }
    };
}

const ACCOUNT: &str = "111111111111";

impl Played for Aws {
    type Cloud = provider_aws::cloud::Cloud;
    const NAME: &'static str = "aws";
    const KINDS: &'static [&'static str] = &["instance", "volume", "interface"];
    const LABEL: &'static str = SPELLED_MACHINE_UID;
    const SIZE: &'static str = "m7i.large";
    const IMAGE: &'static str = "ami-0123456789abcdef0";

    async fn start(clock: VirtualClock) -> Result<Self> {
        Ok(Self(FakeAws::start(clock, &[ACCOUNT]).await?))
    }

    fn spec() -> Value {
        json!({
            "credentialsSecretName": "aws", "region": "eu-central-1", "zone": "eu-central-1a",
            "subnetID": "subnet-0123456789abcdef0", "securityGroupIDs": ["sg-0123456789abcdef0"],
            "images": { "1.36": Self::IMAGE },
        })
    }

    fn endpoints(&self) -> provider_aws::calls::Endpoints {
        provider_aws::calls::Endpoints {
            ec2: self.0.endpoint(),
            sts: self.0.endpoint(),
            ..provider_aws::calls::Endpoints::default()
        }
    }

    fn credentials(&self) -> String {
        FakeAws::key_file(ACCOUNT).to_string()
    }

    fn widen(&self) {
        let mut contents = self.0.contents();
        contents.behaviour.vcpus = ROOM;
        contents.behaviour.page = 1000;
    }

    fn refusals() -> &'static [(u16, &'static str)] {
        &[
            (500, "InternalError"),
            (503, "Unavailable"),
            (404, ""),
            (500, "InsufficientInstanceCapacity"),
            (400, "VcpuLimitExceeded"),
            (403, "UnauthorizedOperation"),
            (401, "AuthFailure"),
            (401, "OptInRequired"),
            (400, "RequestExpired"),
            (400, "InvalidInstanceID.NotFound"),
            (400, "InvalidAMIID.NotFound"),
            (400, "IdempotentParameterMismatch"),
            (400, "IncorrectInstanceState"),
            (400, "InvalidParameterValue"),
        ]
    }

    fn throttled() -> (u16, &'static str) {
        (503, "RequestLimitExceeded")
    }

    /// "Request throttling for the Amazon EC2 API": of each API of an account in a region.
    fn limit(entry: &Entry) -> (&'static str, u32) {
        match entry.path.as_str() {
            "/RunInstances" | "/StartInstances" => ("RunInstances", 2 * 3600),
            "/DescribeInstances" => ("DescribeInstances", 20 * 3600),
            path if path.starts_with("/Describe") => ("other Describe…", 20 * 3600),
            _ => ("changes", 5 * 3600),
        }
    }

    played!();
}

const SUBSCRIPTION: &str = "11111111-0000-4000-8000-000000000001";
const TENANT: &str = "22222222-0000-4000-8000-000000000001";

impl Played for Azure {
    type Cloud = provider_azure::cloud::Cloud;
    const NAME: &'static str = "azure";
    const KINDS: &'static [&'static str] = &["vm", "nic", "address", "disk"];
    const LABEL: &'static str = SPELLED_MACHINE_UID;
    const SIZE: &'static str = "Standard_D2s_v5";
    const IMAGE: &'static str = "/subscriptions/11111111-0000-4000-8000-000000000001/resourceGroups/workers/providers/\
                                 Microsoft.Compute/galleries/covey/images/worker/versions/1.36.0";

    async fn start(clock: VirtualClock) -> Result<Self> {
        let fake = FakeAzure::start(clock, &[(SUBSCRIPTION, TENANT)]).await;
        Ok(Self(fake?))
    }

    fn spec() -> Value {
        let group = format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/workers");
        let net = format!("{group}/providers/Microsoft.Network");
        json!({
            "credentialsSecretName": "azure", "subscriptionID": SUBSCRIPTION, "resourceGroup": "workers",
            "location": "westeurope", "zone": "1", "sshKey": "ssh-ed25519 AAAA", "images": { "1.36": Self::IMAGE },
            "subnetID": format!("{net}/virtualNetworks/net/subnets/workers"),
            "securityGroupID": format!("{net}/networkSecurityGroups/workers"),
        })
    }

    fn endpoints(&self) -> provider_azure::calls::Endpoints {
        provider_azure::calls::Endpoints {
            management: self.0.endpoint(),
            authority: self.0.endpoint(),
        }
    }

    fn credentials(&self) -> String {
        FakeAzure::principal_file(SUBSCRIPTION, TENANT).to_string()
    }

    fn widen(&self) {
        let mut contents = self.0.contents();
        contents.behaviour.machine_limit = ROOM;
        contents.behaviour.page = 100;
    }

    fn refusals() -> &'static [(u16, &'static str)] {
        &[
            (500, "InternalServerError"),
            (503, "ServerTimeout"),
            (401, "ExpiredAuthenticationToken"),
            (403, "AuthorizationFailed"),
            (404, "ResourceNotFound"),
            (404, "ResourceGroupNotFound"),
            (404, ""),
            (409, "SkuNotAvailable"),
            (409, "OperationNotAllowed"),
            (409, "AnotherOperationInProgress"),
            (412, "PreconditionFailed"),
            (400, "NicReservedForAnotherVm"),
            (400, "InvalidParameter"),
        ]
    }

    fn throttled() -> (u16, &'static str) {
        (429, "SubscriptionRequestsThrottled")
    }

    /// "Understand how Azure Resource Manager throttles requests": of each principal in a subscription and region.
    fn limit(entry: &Entry) -> (&'static str, u32) {
        match entry.method.as_str() {
            "GET" => ("reads", 25 * 3600),
            "DELETE" => ("deletions", 10 * 3600),
            _ => ("writes", 10 * 3600),
        }
    }

    played!();
}

const PROJECT: &str = "demo";

impl Played for Gcp {
    type Cloud = provider_gcp::cloud::Cloud;
    const NAME: &'static str = "gcp";
    const KINDS: &'static [&'static str] = &["instance", "disk"];
    const LABEL: &'static str = provider_gcp::labels::SPELLED_MACHINE_UID;
    const SIZE: &'static str = "e2-medium";
    const IMAGE: &'static str = "projects/demo/global/images/worker-1-36";

    async fn start(clock: VirtualClock) -> Result<Self> {
        Ok(Self(FakeGcp::start(clock, &[PROJECT]).await?))
    }

    fn spec() -> Value {
        json!({
            "keySecretName": "gcp", "project": PROJECT, "zone": "europe-west1-b", "subnet": "workers",
            "networkTags": ["workers"], "images": { "1.36": Self::IMAGE },
        })
    }

    fn endpoints(&self) -> provider_gcp::calls::Endpoints {
        provider_gcp::calls::Endpoints {
            compute: self.0.endpoint(),
            token_uri: self.0.token_uri(),
        }
    }

    fn credentials(&self) -> String {
        self.0.key_file("covey@demo").to_string()
    }

    fn widen(&self) {
        self.0.contents().behaviour.instance_limit = ROOM;
    }

    fn refusals() -> &'static [(u16, &'static str)] {
        &[
            (500, "internalError"),
            (503, "backendError"),
            (401, "authError"),
            (403, "forbidden"),
            (403, "quotaExceeded"),
            (403, "rateLimitExceeded"),
            (404, "notFound"),
            (409, "alreadyExists"),
            (412, "conditionNotMet"),
            (400, "resourceNotReady"),
            (400, "invalid"),
        ]
    }

    fn throttled() -> (u16, &'static str) {
        (429, "rateLimitExceeded")
    }

    /// "Rate quotas" of the Compute Engine: 1,500 requests a minute of each kind, project and region.
    fn limit(entry: &Entry) -> (&'static str, u32) {
        match entry.method.as_str() {
            "GET" => ("reads", 1500 * 60),
            _ => ("changes", 1500 * 60),
        }
    }

    played!();
}

const TOKEN: &str = "token-of-the-project";

impl Played for Hetzner {
    type Cloud = provider_hetzner::cloud::Cloud;
    const NAME: &'static str = "hetzner";
    const KINDS: &'static [&'static str] = &["server", "primary_ip"];
    const LABEL: &'static str = MACHINE_UID;
    const SIZE: &'static str = "cx22";
    const IMAGE: &'static str = "worker-1.35.4";

    async fn start(clock: VirtualClock) -> Result<Self> {
        Ok(Self(FakeHetzner::start(clock, &[TOKEN]).await?))
    }

    fn spec() -> Value {
        json!({
            "tokenSecretName": "hetzner", "location": "fsn1", "sshKeys": ["covey"], "network": "workers",
            "firewalls": ["closed"], "images": { "1.36": Self::IMAGE },
        })
    }

    fn endpoints(&self) -> String {
        self.0.endpoint()
    }

    fn credentials(&self) -> String {
        TOKEN.to_owned()
    }

    fn widen(&self) {
        let mut contents = self.0.contents();
        contents.behaviour.server_limit = ROOM;
        contents.behaviour.address_limit = 2 * ROOM;
    }

    fn refusals() -> &'static [(u16, &'static str)] {
        &[
            (500, "server_error"),
            (503, "unavailable"),
            (504, "timeout"),
            (401, "unauthorized"),
            (403, "forbidden"),
            (403, "resource_limit_exceeded"),
            (404, "not_found"),
            (409, "conflict"),
            (409, "uniqueness_error"),
            (412, "resource_unavailable"),
            (422, "invalid_input"),
            (423, "locked"),
        ]
    }

    fn throttled() -> (u16, &'static str) {
        (429, "rate_limit_exceeded")
    }

    /// "Rate limiting": 3,600 requests an hour of each project.
    fn limit(_: &Entry) -> (&'static str, u32) {
        ("requests", 3600)
    }

    played!();
}
