//! Conformance of the fake of EC2: what the vendor documents, one request after the other, so that the fake cannot drift
//! into what its users like.
//!
//! Where from: R = API references of EC2 and of the Security Token Service, G = Amazon's guides beside them ("Ensure
//! idempotency in Amazon EC2 API requests", "Eventual consistency in the Amazon EC2 API", "Request throttling", "Create a
//! signed AWS API request", "Spot Instance interruption notices"). What is marked `Unproven` is what none of them says:
//! there the fake does what is harder for whoever asks it, and the real API may differ.
//!
//! Invariant: every line is asked over HTTP, signed here by the documentation, and nothing is read from within.

// Helpers of tests, not only the tests themselves.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::time::Duration;

use fake_clouds::aws::{EXTERNAL_ID, FakeAws, SECRET};
use fake_clouds::clock::VirtualClock;
use ring::{digest, hmac};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const ACCOUNT: &str = "111111111111";
const RUN: &str = "MinCount=1&MaxCount=1&ImageId=ami-0123456789abcdef0&InstanceType=m7i.large&UserData=eA%3D%3D&\
    BlockDeviceMapping.1.DeviceName=%2Fdev%2Fxvda&BlockDeviceMapping.1.Ebs.DeleteOnTermination=true&\
    NetworkInterface.1.SubnetId=subnet-0123456789abcdef0&NetworkInterface.1.DeleteOnTermination=true";

/// Who says so.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Source {
    /// The reference.
    R,
    /// The guides.
    G,
    /// Nobody.
    Unproven,
}
use Source::{G, R, Unproven};

/// Who signs, and when it says that it does.
#[derive(Clone, Debug)]
struct Signer {
    key: String,
    secret: String,
    session: Option<String>,
    region: &'static str,
    /// Seconds that its clock is ahead.
    ahead: i64,
}

impl Default for Signer {
    fn default() -> Self {
        Self {
            key: format!("AKIA{ACCOUNT}"),
            secret: SECRET.to_owned(),
            session: None,
            region: "eu-central-1",
            ahead: 0,
        }
    }
}

struct Amazon {
    fake: FakeAws,
    lines: Vec<Source>,
}

impl Amazon {
    async fn new() -> Self {
        let fake = FakeAws::start(VirtualClock::default(), &[ACCOUNT, "222222222222"]);
        let fake = fake.await.unwrap();
        let lines = Vec::new();
        Self { fake, lines }
    }

    /// Sends one form; gives the status and the body.
    async fn send(&self, signer: Option<&Signer>, service: &str, form: &str) -> (u16, String) {
        let endpoint = self.fake.endpoint();
        let host = endpoint.trim_start_matches("http://");
        let signed = signer.map(|signer| self.signed(signer, service, host, form));
        let mut stream = TcpStream::connect(host).await.unwrap();
        let text = format!(
            "POST / HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\ncontent-length: {}\r\n{}\r\n{form}",
            form.len(),
            signed.unwrap_or_default()
        );
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
        (status, body.to_owned())
    }

    fn signed(&self, signer: &Signer, service: &str, host: &str, form: &str) -> String {
        let now = self.fake.clock.now().as_second() + signer.ahead;
        let now = jiff::Timestamp::from_second(now).unwrap();
        let at = now.strftime("%Y%m%dT%H%M%SZ").to_string();
        let scope = format!("{}/{}/{service}/aws4_request", &at[..8], signer.region);
        let request = format!(
            "POST\n/\n\nhost:{host}\nx-amz-date:{at}\n\nhost;x-amz-date\n{}",
            sha(form)
        );
        let to_sign = format!("AWS4-HMAC-SHA256\n{at}\n{scope}\n{}", sha(&request));
        let first = format!("AWS4{}", signer.secret).into_bytes();
        let key = scope.split('/').fold(first, |key, part| mac(&key, part));
        let mut text = format!(
            "x-amz-date: {at}\r\nauthorization: AWS4-HMAC-SHA256 Credential={}/{scope}, \
             SignedHeaders=host;x-amz-date, Signature={}\r\n",
            signer.key,
            hex(&mac(&key, &to_sign))
        );
        if let Some(session) = &signer.session {
            text += &format!("x-amz-security-token: {session}\r\n");
        }
        text
    }

    async fn ec2(&self, form: &str) -> (u16, String) {
        let form = format!("Version=2016-11-15&Action={form}");
        self.send(Some(&Signer::default()), "ec2", &form).await
    }

    async fn sts(&self, signer: Option<&Signer>, form: &str) -> (u16, String) {
        let form = format!("Version=2011-06-15&Action={form}");
        self.send(signer, "sts", &form).await
    }

    fn pass(&self, seconds: u64) {
        self.fake.clock.advance(Duration::from_secs(seconds));
    }

    /// One line of the list: status and what the body has.
    fn holds(&mut self, source: Source, what: &str, told: &(u16, String), expected: (u16, &str)) {
        let is = told.0 == expected.0 && told.1.contains(expected.1);
        assert!(is, "{source:?}: {what}: {told:?}");
        self.lines.push(source);
    }

    fn report(&self) {
        let unproven = self.lines.iter().filter(|line| **line == Unproven).count();
        println!("{} lines, {unproven} of them unproven", self.lines.len());
    }
}

fn sha(text: &str) -> String {
    hex(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What stands in an element.
fn within<'a>(told: &'a (u16, String), name: &str) -> &'a str {
    let rest = told.1.split(&format!("<{name}>")).nth(1).unwrap();
    rest.split('<').next().unwrap()
}

#[tokio::test]
async fn who_asks() {
    let mut aws = Amazon::new().await;
    let whoami = "GetCallerIdentity";
    let list = "Version=2016-11-15&Action=DescribeInstances";
    let told = aws.send(None, "ec2", list).await;
    let code = "<Code>MissingAuthenticationToken</Code>";
    aws.holds(R, "a request is signed", &told, (403, code));
    let signer = Signer::default();
    let told = aws.sts(Some(&signer), whoami).await;
    let account = "<Account>111111111111</Account>";
    aws.holds(R, "an identity needs no right", &told, (200, account));
    for (ahead, code) in [(-600, "RequestExpired"), (600, "AuthFailure")] {
        let source = if ahead < 0 { R } else { Unproven };
        let wrong = Signer {
            ahead,
            ..signer.clone()
        };
        let told = aws.send(Some(&wrong), "ec2", list).await;
        let status = if ahead < 0 { 400 } else { 401 };
        aws.holds(source, "a time is about now", &told, (status, code));
    }
    let other = Signer {
        secret: "other".to_owned(),
        ..signer.clone()
    };
    let told = aws.send(Some(&other), "ec2", list).await;
    aws.holds(R, "another secret is another", &told, (401, "AuthFailure"));
    let told = aws.send(Some(&signer), "sts", list).await;
    let code = "SignatureDoesNotMatch";
    aws.holds(G, "a signature is of one service", &told, (403, code));
    aws.fake
        .contents()
        .behaviour
        .regions_off
        .insert("me-south-1".to_owned());
    let off = Signer {
        region: "me-south-1",
        ..signer
    };
    let told = aws.send(Some(&off), "ec2", list).await;
    aws.holds(R, "a region may be off", &told, (401, "OptInRequired"));
    aws.report();
}

#[tokio::test]
async fn roles() {
    let mut aws = Amazon::new().await;
    let user = Signer::default();
    let role = format!("RoleArn=arn%3Aaws%3Aiam%3A%3A{ACCOUNT}%3Arole%2Fcovey&RoleSessionName=a");
    let told = aws
        .sts(Some(&user), &format!("AssumeRole&{role}&ExternalId=b"))
        .await;
    aws.holds(
        G,
        "an external ID is asked for",
        &told,
        (403, "AccessDenied"),
    );
    let form = format!(
        "AssumeRole&{role}&ExternalId={}",
        EXTERNAL_ID.replace('/', "%2F")
    );
    let told = aws.sts(Some(&user), &form).await;
    aws.holds(R, "a role is taken on", &told, (200, "<SessionToken>"));
    let mut session = Signer {
        key: within(&told, "AccessKeyId").to_owned(),
        secret: within(&told, "SecretAccessKey").to_owned(),
        ..Signer::default()
    };
    let list = "Version=2016-11-15&Action=DescribeVolumes";
    let bare = aws.send(Some(&session), "ec2", list).await;
    aws.holds(R, "its token is sent", &bare, (401, "AuthFailure"));
    session.session = Some(within(&told, "SessionToken").to_owned());
    let told = aws.send(Some(&session), "ec2", list).await;
    aws.holds(R, "with it, it lets in", &told, (200, "<volumeSet>"));
    aws.pass(3600);
    let told = aws.send(Some(&session), "ec2", list).await;
    aws.holds(R, "a session ends", &told, (400, "RequestExpired"));
    let form = format!("AssumeRoleWithWebIdentity&{role}&WebIdentityToken=t");
    let told = aws.sts(None, &form).await;
    let code = "InvalidIdentityToken";
    aws.holds(R, "a token has to be trusted", &told, (400, code));
    for known in aws.fake.contents().roles.values_mut() {
        known.web_token = Some("t".to_owned());
    }
    let told = aws.sts(None, &form).await;
    aws.holds(R, "one that is lets in unsigned", &told, (200, "ASIA"));
    aws.report();
}

#[tokio::test]
async fn instances() {
    let mut aws = Amazon::new().await;
    let dry = aws.ec2(&format!("RunInstances&{RUN}&DryRun=true")).await;
    aws.holds(R, "a call may be tried", &dry, (412, "DryRunOperation"));
    let run = format!("RunInstances&{RUN}&ClientToken=u1");
    let made = aws.ec2(&run).await;
    aws.holds(
        R,
        "an instance is pending",
        &made,
        (200, "<name>pending</name>"),
    );
    let id = within(&made, "instanceId").to_owned();
    let by_id = format!("DescribeInstances&InstanceId.1={id}");
    let told = aws.ec2(&by_id).await;
    let code = "InvalidInstanceID.NotFound";
    aws.holds(G, "it is not found for a while", &told, (400, code));
    let again = aws.ec2(&run).await;
    aws.holds(G, "the same token gives the same one", &again, (200, &id));
    let other = aws.ec2(&run.replace("m7i.large", "m7g.large")).await;
    let code = "IdempotentParameterMismatch";
    aws.holds(G, "and takes nothing else", &other, (400, code));
    aws.pass(60);
    let told = aws.ec2(&by_id).await;
    aws.holds(R, "it runs", &told, (200, "<name>running</name>"));
    let by_token = "DescribeInstances&Filter.1.Name=client-token&Filter.1.Value.1=u1";
    let told = aws.ec2(by_token).await;
    aws.holds(R, "it is found by its token", &told, (200, &id));
    let told = aws.ec2(&format!("{by_id}&MaxResults=5")).await;
    let code = "InvalidParameterCombination";
    aws.holds(R, "IDs and pages do not meet", &told, (400, code));
    let told = aws
        .ec2(&format!("{by_id}&InstanceId.2=i-0123456789abcdef0"))
        .await;
    let code = "InvalidInstanceID.NotFound";
    aws.holds(R, "one bad ID spoils all", &told, (400, code));
    let told = aws
        .ec2(&format!("TerminateInstances&InstanceId.1={id}"))
        .await;
    aws.holds(R, "it shuts down", &told, (200, "shutting-down"));
    aws.pass(60);
    let told = aws.ec2(&by_id).await;
    aws.holds(
        R,
        "it is shown when it ended",
        &told,
        (200, "<name>terminated</name>"),
    );
    let told = aws.ec2("DescribeVolumes").await;
    assert!(!told.1.contains("vol-"), "its disk went: {told:?}");
    let told = aws.ec2(&run).await;
    let code = "IdempotentInstanceTerminated";
    aws.holds(G, "its token makes no other", &told, (400, code));
    aws.pass(3600);
    let told = aws.ec2(&by_id).await;
    let code = "InvalidInstanceID.NotFound";
    aws.holds(G, "an hour later it is not", &told, (400, code));
    let told = aws.ec2(&run).await;
    let code = "IdempotentInstanceTerminated";
    aws.holds(G, "and its token is known still", &told, (400, code));
    aws.report();
}

#[tokio::test]
async fn what_there_is_too_little_of() {
    let mut aws = Amazon::new().await;
    aws.fake.contents().behaviour.exhausted = vec!["m7i.large".to_owned()];
    let run = format!("RunInstances&{RUN}");
    let told = aws.ec2(&run).await;
    let code = "InsufficientInstanceCapacity";
    aws.holds(R, "nothing left is a 500", &told, (500, code));
    aws.fake.contents().behaviour.exhausted.clear();
    aws.fake.contents().behaviour.vcpus = 1;
    let told = aws.ec2(&run).await;
    aws.holds(R, "a limit is a 400", &told, (400, "VcpuLimitExceeded"));
    for _ in 0..3 {
        aws.ec2(&run).await;
    }
    let told = aws.ec2(&run).await;
    let code = "RequestLimitExceeded";
    aws.holds(G, "the sixth at once is too many", &told, (503, code));
    let told = aws.ec2("DescribeVolumes").await;
    aws.holds(G, "of this API alone", &told, (200, "<volumeSet>"));
    aws.pass(1);
    let told = aws.ec2(&run).await;
    aws.holds(
        G,
        "two come back in a second",
        &told,
        (400, "VcpuLimitExceeded"),
    );
    aws.report();
}
