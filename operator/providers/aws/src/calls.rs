//! The calls, and the pages of lists.
//!
//! Invariant: each call is one request, lists aside, and one more where its signature let in no more, because then nothing
//! was done; a list says what it misses. The credentials go to the two addresses of the region alone.

use std::sync::Arc;

use jiff::Timestamp;
use providers::budget::{Bucket, Use};
use providers::clock::Clock;
use providers::http_client::{BuildError, HttpClient, LIST, ONE};
use providers::refused::Asked;
use providers::{FaultKind, Refused};

use crate::access::{Access, ID_HEADER, Post, read};
use crate::credentials::{Credentials, WebIdentity};
use crate::parameters::Form;
use crate::plan::is_region;
use crate::refusal::{DRY_RUN, PAGES, asked, is_of_signature};
use crate::schema::{
    Done, Identity, Image, Instance, InstanceType, Interface, Item, Made, Page, Part, Read,
    SpotPrice, SpotStatus, Subnet, TypeOffering, Volume,
};

/// Requests that look, of each API of an account in a region (documentation, "Request throttling for the Amazon EC2 API").
/// All of ours are counted together here.
const LOOKS: Bucket = Bucket {
    most: 100,
    per_second: 20,
};
/// Requests that change something: fewer than any of those that we ask for, but for the next ones.
const CHANGES: Bucket = Bucket {
    most: 50,
    per_second: 5,
};
/// Requests that make or start instances.
const RUNS: Bucket = Bucket {
    most: 5,
    per_second: 2,
};
/// Most pages of a list.
const MOST: u32 = 40;
/// Most entries of a page.
const PAGE: &str = "1000";
/// Most entries of a page of types, which are long.
const PAGE_OF_TYPES: &str = "100";

/// Where the APIs are, as URLs, and who is let in there without a key. `{region}` in one stands for the region.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Endpoints {
    /// EC2's.
    pub ec2: String,
    /// The Security Token Service's.
    pub sts: String,
    /// Which roles are taken on without a key.
    pub web_identity: WebIdentity,
}

impl Default for Endpoints {
    fn default() -> Self {
        Self {
            ec2: "https://ec2.{region}.amazonaws.com".to_owned(),
            sts: "https://sts.{region}.amazonaws.com".to_owned(),
            web_identity: WebIdentity::default(),
        }
    }
}

impl Endpoints {
    /// Those of a region; none: it is none.
    #[must_use]
    pub fn of(&self, region: &str) -> Option<Self> {
        let of = |url: &str| {
            let url = url.replace("{region}", region);
            // China's are below a domain of its own.
            match region.starts_with("cn-") && url.ends_with(".amazonaws.com") {
                true => url + ".cn",
                false => url,
            }
        };
        is_region(region).then(|| Self {
            ec2: of(&self.ec2),
            sts: of(&self.sts),
            web_identity: self.web_identity.clone(),
        })
    }
}

/// Which bucket a call is counted by.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Counted {
    Look,
    Change,
    Run,
}

/// Makes calls.
pub struct Calls {
    transport: HttpClient,
    /// The same for calls that have the smallest bucket.
    runs: HttpClient,
    access: Access,
    endpoint: String,
    region: String,
}

impl Calls {
    /// In one region. Nothing is sent yet.
    ///
    /// # Errors
    /// [`BuildError`].
    pub fn new(
        endpoints: &Endpoints,
        credentials: Credentials,
        region: &str,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, BuildError> {
        let endpoint = endpoints.ec2.trim_end_matches('/');
        // The limit of an hour is none of EC2's, and the buckets are set instead.
        let transport = || HttpClient::new(endpoint, 0, ID_HEADER, Arc::clone(&clock));
        Ok(Self {
            transport: transport()?.with_buckets(LOOKS, CHANGES),
            runs: transport()?.with_buckets(LOOKS, RUNS),
            access: Access::new(&endpoints.sts, region, credentials, clock)?,
            endpoint: endpoint.to_owned(),
            region: region.to_owned(),
        })
    }

    /// What time it is by AWS's clock.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.access.now()
    }

    /// Whom the credentials are of.
    ///
    /// # Errors
    /// Where nobody knows.
    pub async fn identity(&self) -> Result<Identity, Refused> {
        self.access.identity().await
    }

    /// The instance with an ID.
    ///
    /// # Errors
    /// Where it is not known.
    pub async fn instance(&self, id: &str) -> Result<Option<Instance>, Refused> {
        let asked = asked("read", format!("instance {id}"));
        let form = Form::ec2("DescribeInstances").with_each("InstanceId", [id]);
        match self.page::<Instance>(&form, ONE, &asked).await {
            Err(refused) if refused.kind == FaultKind::NotFound => Ok(None),
            page => Ok(page?.items.into_iter().find(|found| found.id == id)),
        }
    }

    /// Instances of which all of these hold.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn instances(&self, filters: &[(&str, &str)]) -> Result<Vec<Instance>, Refused> {
        self.list("DescribeInstances", "instances", filters).await
    }

    /// Disks of which all of these hold.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn volumes(&self, filters: &[(&str, &str)]) -> Result<Vec<Part>, Refused> {
        let found = self.list::<Volume>("DescribeVolumes", "volumes", filters);
        Ok(found.await?.into_iter().map(|volume| volume.0).collect())
    }

    /// Interfaces of which all of these hold.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn interfaces(&self, filters: &[(&str, &str)]) -> Result<Vec<Part>, Refused> {
        let action = "DescribeNetworkInterfaces";
        let found = self.list::<Interface>(action, "network interfaces", filters);
        Ok(found.await?.into_iter().map(|nic| nic.0).collect())
    }

    /// Asks for an instance.
    ///
    /// # Errors
    /// Where that was not taken, or nobody knows.
    pub async fn run(&self, form: &Form, name: &str) -> Result<Instance, Refused> {
        let asked = asked("create", format!("instance {name}"));
        let made = self.send::<Made>(form, Counted::Run, ONE, &asked).await;
        Ok(made.map_err(named)?.0)
    }

    /// Whether an instance would be made, without making one.
    ///
    /// # Errors
    /// Why none would.
    pub async fn would_run(&self, form: Form) -> Result<(), Refused> {
        let asked = asked("use", "what a machine is made of");
        let form = form.with("DryRun", "true");
        match self.send::<Done>(&form, Counted::Run, ONE, &asked).await {
            Err(refused) if refused.code == DRY_RUN => Ok(()),
            Err(refused) => Err(named(refused)),
            Ok(Done) => {
                let why = "a call that was to do nothing was carried out";
                Err(asked.refused(FaultKind::Terminal, DRY_RUN, why))
            }
        }
    }

    /// Whether a call that looks would be let in, without looking.
    ///
    /// # Errors
    /// Why it would not.
    pub async fn would_look(&self, action: &'static str) -> Result<(), Refused> {
        let asked = asked("use", "what is there of machines");
        let form = Form::ec2(action).with("DryRun", "true");
        match self.send::<Done>(&form, Counted::Look, LIST, &asked).await {
            Err(refused) if refused.code == DRY_RUN => Ok(()),
            told => told.map(drop),
        }
    }

    /// Asks for an instance to go. That it is not there is fine.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn terminate(&self, id: &str) -> Result<(), Refused> {
        let form = Form::ec2("TerminateInstances").with_each("InstanceId", [id]);
        self.remove(form, format!("instance {id}")).await
    }

    /// Asks for a disk to go. That it is not there is fine.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn delete_volume(&self, id: &str) -> Result<(), Refused> {
        let form = Form::ec2("DeleteVolume").with("VolumeId", id);
        self.remove(form, format!("volume {id}")).await
    }

    /// Asks for an interface to go. That it is not there is fine.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn delete_interface(&self, id: &str) -> Result<(), Refused> {
        let form = Form::ec2("DeleteNetworkInterface").with("NetworkInterfaceId", id);
        self.remove(form, format!("network interface {id}")).await
    }

    async fn remove(&self, form: Form, object: String) -> Result<(), Refused> {
        let asked = asked("delete", object);
        let done = self.send::<Done>(&form, Counted::Change, ONE, &asked).await;
        match done {
            Err(refused) if refused.kind == FaultKind::NotFound => Ok(()),
            done => done.map(drop),
        }
    }

    /// Starts an instance that was stopped.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn start(&self, id: &str) -> Result<(), Refused> {
        let asked = asked("restart", format!("instance {id}"));
        let form = Form::ec2("StartInstances").with_each("InstanceId", [id]);
        let done = self.send::<Done>(&form, Counted::Run, ONE, &asked).await;
        done.map(drop)
    }

    /// Starts one anew that runs.
    ///
    /// # Errors
    /// Where that was not taken.
    pub async fn reboot(&self, id: &str) -> Result<(), Refused> {
        let asked = asked("restart", format!("instance {id}"));
        let form = Form::ec2("RebootInstances").with_each("InstanceId", [id]);
        let done = self.send::<Done>(&form, Counted::Change, ONE, &asked).await;
        done.map(drop)
    }

    /// An image, by its ID; none: there is none, or it is not ours to use.
    ///
    /// # Errors
    /// Where nobody knows.
    pub async fn image(&self, id: &str) -> Result<Option<Image>, Refused> {
        let asked = asked("read", format!("image {id}"));
        let form = Form::ec2("DescribeImages").with_each("ImageId", [id]);
        match self.page::<Image>(&form, ONE, &asked).await {
            Err(refused) if refused.code.starts_with("InvalidAMIID.") => Ok(None),
            page => Ok(page?.items.into_iter().next()),
        }
    }

    /// The subnet; none: there is none.
    ///
    /// # Errors
    /// Where nobody knows.
    pub async fn subnet(&self, id: &str) -> Result<Option<Subnet>, Refused> {
        let asked = asked("read", format!("subnet {id}"));
        let form = Form::ec2("DescribeSubnets").with_each("SubnetId", [id]);
        match self.page::<Subnet>(&form, ONE, &asked).await {
            Err(refused) if refused.code.starts_with("InvalidSubnetID.") => Ok(None),
            page => Ok(page?.items.into_iter().next()),
        }
    }

    /// All types of the region.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn types(&self) -> Result<Vec<InstanceType>, Refused> {
        let form = Form::ec2("DescribeInstanceTypes").with("MaxResults", PAGE_OF_TYPES);
        self.pages(form, &asked("list", "types")).await
    }

    /// Those types that are to be had in a zone, by name.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn types_in(&self, zone: &str) -> Result<Vec<String>, Refused> {
        let form = Form::ec2("DescribeInstanceTypeOfferings")
            .with("LocationType", "availability-zone")
            .with("MaxResults", PAGE)
            .filtered(&[("location", zone)]);
        let asked = asked("list", format!("types of zone {zone}"));
        let found: Vec<TypeOffering> = self.pages(form, &asked).await?;
        Ok(found.into_iter().map(|offering| offering.name).collect())
    }

    /// What instances cost in a zone now that may be taken back.
    ///
    /// # Errors
    /// Where something may be missing.
    pub async fn spot_prices(&self, zone: &str) -> Result<Vec<SpotPrice>, Refused> {
        let now = self.now();
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        let form = Form::ec2("DescribeSpotPriceHistory")
            .with("StartTime", now.to_string())
            .with("EndTime", now.to_string())
            .with("AvailabilityZone", zone)
            .with("MaxResults", PAGE)
            .with_each("ProductDescription", ["Linux/UNIX"]);
        let asked = asked("list", format!("prices of zone {zone}"));
        self.pages(form, &asked).await
    }

    /// How the request of an instance that may be taken back stands; none: it is not known, or no more.
    ///
    /// # Errors
    /// Where nobody knows.
    pub async fn spot_status(&self, request: &str) -> Result<Option<SpotStatus>, Refused> {
        let asked = asked("read", format!("spot request {request}"));
        let form =
            Form::ec2("DescribeSpotInstanceRequests").with_each("SpotInstanceRequestId", [request]);
        match self.page::<SpotStatus>(&form, ONE, &asked).await {
            Err(refused) if refused.kind == FaultKind::NotFound => Ok(None),
            page => Ok(page?.items.into_iter().next()),
        }
    }

    async fn list<T: Item>(
        &self,
        action: &'static str,
        what: &str,
        filters: &[(&str, &str)],
    ) -> Result<Vec<T>, Refused> {
        let form = Form::ec2(action).filtered(filters);
        let form = form.with("MaxResults", PAGE);
        self.pages(form, &asked("list", what)).await
    }

    /// All of a list, or why something may be missing. A page may be empty and have a next one.
    async fn pages<T: Item>(&self, form: Form, asked: &Asked) -> Result<Vec<T>, Refused> {
        let mut items = Vec::new();
        let mut next: Option<String> = None;
        for _ in 0..MOST {
            let form = match next {
                Some(next) => form.clone().with("NextToken", next),
                None => form.clone(),
            };
            let page: Page<T> = self.page(&form, LIST, asked).await?;
            items.extend(page.items);
            next = page.next;
            if next.is_none() {
                return Ok(items);
            }
        }
        let why = format!("the list has more than {MOST} pages");
        Err(asked.refused(FaultKind::Unavailable, PAGES, why))
    }

    async fn page<T: Item>(
        &self,
        form: &Form,
        largest: usize,
        asked: &Asked,
    ) -> Result<Page<T>, Refused> {
        self.send(form, Counted::Look, largest, asked).await
    }

    async fn send<T: Read>(
        &self,
        form: &Form,
        counted: Counted,
        largest: usize,
        asked: &Asked,
    ) -> Result<T, Refused> {
        let use_ = match counted {
            Counted::Look => Use::Look,
            Counted::Change | Counted::Run => Use::Change,
        };
        let transport = match counted {
            Counted::Run => &self.runs,
            Counted::Look | Counted::Change => &self.transport,
        };
        let to = Post {
            transport,
            endpoint: &self.endpoint,
            service: "ec2",
            region: &self.region,
            use_,
            largest,
        };
        let mut is_first = true;
        loop {
            let keys = self.access.keys().await?;
            let reply = to.send(form, Some(&keys), self.now(), asked).await?;
            self.access.hears(&reply);
            let mut refused = match read(&reply, form.action, Some(&keys), asked) {
                Ok(read) => return Ok(read),
                Err(refused) => refused,
            };
            if is_of_signature(&refused.code) {
                self.access.forget(&keys).await;
                if std::mem::take(&mut is_first) {
                    continue;
                }
            }
            // Said with 503, which the client below takes for a failure.
            if let FaultKind::Throttled { after } = &mut refused.kind {
                *after = reply.after.or_else(|| transport.pause(use_));
            }
            return Err(refused);
        }
    }
}

/// What it names is not there, and not itself.
fn named(refused: Refused) -> Refused {
    match refused.kind {
        FaultKind::NotFound => Refused {
            kind: FaultKind::Terminal,
            mend: Some("make what it names, or change the image, or spec.aws.subnetID of the ProviderConfig".to_owned()),
            ..refused
        },
        _ => refused,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn region_decides_where_credentials_go() {
        let endpoints = Endpoints::default();
        let found = endpoints.of("eu-central-1").unwrap();
        assert_eq!(found.ec2, "https://ec2.eu-central-1.amazonaws.com");
        assert_eq!(found.sts, "https://sts.eu-central-1.amazonaws.com");
        let china = endpoints.of("cn-north-1").unwrap();
        assert_eq!(china.ec2, "https://ec2.cn-north-1.amazonaws.com.cn");
        assert_eq!(endpoints.of("evil.example.com/"), None);
        // An address of one's own is as it was said.
        let own = Endpoints {
            ec2: "https://ec2.example.com".to_owned(),
            ..endpoints
        };
        assert_eq!(own.of("cn-north-1").unwrap().ec2, own.ec2);
    }
}
