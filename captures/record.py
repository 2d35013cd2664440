#!/usr/bin/env python3
"""Record what real Apache Kafka brokers say to their KRaft controller.

Each scenario starts a controller and its brokers as plain Java processes on the loopback interface, captures the
controller's port from the first packet to the last, and stops everything again. It leaves two files:

  NAME.pcap or NAME.pcapng   the packets of the controller's port
  NAME.log.json              every broker registration of that run as Kafka's own logs tell it, with the lines quoted

Needed: a JDK (17 and 25 were tried), Maven or an unpacked Kafka of the right version (--kafka-home), and dumpcap or
tcpdump with the right to capture. Scenarios with TLS also need editcap.
"""

import argparse
import base64
import contextlib
import dataclasses
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path

# ---------------------------------------------------------------------------------------------------- scenarios


@dataclasses.dataclass(frozen=True)
class Node:
    """One Kafka process. `config` is added to the configuration that all nodes of its role have."""

    id: int
    role: str = "broker"
    kafka: str = ""  # version; the scenario's if empty
    port: int = 0  # of a broker's first listener; the second listener is 10000 above it
    log_dirs: int = 2
    foreign: bool = False  # formatted for another cluster
    config: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Scenario:
    """Nodes by name, and what is done with them. All nodes that still run after the last step are stopped cleanly."""

    about: str
    kafka: str
    nodes: dict
    steps: tuple
    config: dict = dataclasses.field(default_factory=dict)  # of all nodes
    format: dict = dataclasses.field(default_factory=dict)  # further arguments of "storage format", by role
    quotes: tuple = ()  # (node, pattern) of log lines to quote besides those about registrations
    tls: bool = False  # the controller's listener speaks TLS: write pcapng with the session secrets


CONTROLLER = "controller"

COMMON = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "{controller_id}@127.0.0.1:{controller_port}",
    "metadata.max.idle.interval.ms": "0",  # no NoOpRecords: they would only make the capture longer
}

ROLES = {
    CONTROLLER: {"listeners": "CONTROLLER://127.0.0.1:{controller_port}"},
    "broker": {
        "listeners": "INTERNAL://127.0.0.1:{port},EXTERNAL://127.0.0.1:{external_port}",
        "advertised.listeners": "INTERNAL://127.0.0.1:{port},EXTERNAL://broker-{id}.example.test:{external_port}",
        "inter.broker.listener.name": "INTERNAL",
    },
}

PASSWORD = "not-a-secret"  # of the throw-away key store and of every SASL user; it is in the captures for all to see

# Since 3.9 the controllers need not be listed beforehand; kraft.version is then 1.
DYNAMIC_QUORUM = {"controller.quorum.voters": "", "controller.quorum.bootstrap.servers": "127.0.0.1:{controller_port}"}
DYNAMIC_FORMAT = {CONTROLLER: ("--standalone",), "broker": ("--no-initial-controllers",)}

# A little more than broker.session.timeout.ms: Kafka 4.1 to 4.4 refuse a broker that comes back before, even after a
# clean stop ("trouble-clean-restart").
SESSION_ENDS = 10

HEALTHY_STEPS = (
    ("start", CONTROLLER),
    ("start", "broker-1", "broker-2"),
    ("sleep", 3),
    ("stop", "broker-2"),
    ("stop", "broker-1"),
    ("sleep", SESSION_ENDS),
    ("start", "broker-1", "broker-2"),
    ("sleep", 3),
    ("stop", "broker-1", "broker-2"),
)


def cluster(more=None):
    """The usual three nodes: a controller, broker 1 with a rack, broker 2 without; `more` adds or replaces nodes."""
    nodes = {
        CONTROLLER: Node(3000, CONTROLLER, log_dirs=1),
        "broker-1": Node(1, port=19092, config={"broker.rack": "rack-a"}),
        "broker-2": Node(2, port=19093),
    }
    return nodes | (more or {})


FIRST_STARTS = (("start", CONTROLLER), ("start", "broker-1"))
REFUSED = "Unable to register broker"  # what a broker logs at each refusal
SECOND_IS_REFUSED = FIRST_STARTS + (("launch", "broker-2"), ("wait", "broker-2", REFUSED, 3))


def healthy(kafka, how="", **more):
    return Scenario(f"two brokers register{how}, restart cleanly and stop", kafka, cluster(), HEALTHY_STEPS, **more)


def listener(protocol, *more):
    """Configuration of all nodes for a controller listener with that security protocol."""
    config = {"listener.security.protocol.map": f"CONTROLLER:{protocol},INTERNAL:PLAINTEXT,EXTERNAL:PLAINTEXT"}
    for part in more:
        config |= part
    return config


TLS = {
    "ssl.keystore.location": "{keys}",
    "ssl.keystore.password": PASSWORD,
    "ssl.keystore.type": "PKCS12",
    "ssl.truststore.location": "{keys}",
    "ssl.truststore.password": PASSWORD,
    "ssl.truststore.type": "PKCS12",
}

TLS_1_2 = {"ssl.enabled.protocols": "TLSv1.2"}

# Every node logs in to the controller under its own name.
SASL = {
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.controller.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.controller.plain.sasl.jaas.config":
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        f'username="{{name}}" password="{PASSWORD}" '
        f'user_controller="{PASSWORD}" user_broker-1="{PASSWORD}" user_broker-2="{PASSWORD}";',
}

SCENARIOS = {
    "v0-kafka-3.3": healthy("3.3.2"),
    "v1-kafka-3.6": healthy("3.6.2"),
    "v3-kafka-3.7": healthy("3.7.2"),
    "v4-kafka-3.9": healthy("3.9.2"),
    "v4-kafka-4.4": healthy("4.4.0", config=DYNAMIC_QUORUM, format=DYNAMIC_FORMAT),
    "tls12-kafka-3.9": healthy("3.9.2", " over TLS 1.2", tls=True, config=listener("SSL", TLS, TLS_1_2)),
    "tls13-kafka-4.4": healthy("4.4.0", " over TLS 1.3", tls=True, config=listener("SSL", TLS)),
    "sasl-kafka-4.4": healthy("4.4.0", " after SASL PLAIN", config=listener("SASL_PLAINTEXT", SASL)),
    "trouble-duplicate-id": Scenario(
        "a second process takes broker id 1: it is refused as long as the first lives", "3.9.2",
        cluster({"twin": Node(1, port=19094)}),
        FIRST_STARTS + (("launch", "twin"), ("wait", "twin", REFUSED, 5)),
    ),
    "trouble-cluster-id": Scenario(
        "the controller was formatted anew, with another cluster id; broker 1 comes back with the old one", "3.9.2",
        cluster(),
        FIRST_STARTS + (
            ("stop", "broker-1"),
            ("stop", CONTROLLER),
            ("format_anew", CONTROLLER),
            ("start", CONTROLLER),
            ("launch", "broker-1"),
            ("wait", "broker-1", REFUSED, 2),
        ),
    ),
    "trouble-foreign-storage": Scenario(
        "broker 2 has the storage of another cluster: it may not fetch, finds no leader, and never registers", "4.4.0",
        cluster({"broker-2": Node(2, port=19093, foreign=True)}),
        FIRST_STARTS + (("launch", "broker-2"), ("wait", "broker-2", "INCONSISTENT_CLUSTER_ID", 20)),
        quotes=(("broker-2", "INCONSISTENT_CLUSTER_ID in FETCH response"), (CONTROLLER, '"errorCode":104')),
    ),
    "trouble-old-broker": Scenario(
        "broker 2 is older than the metadata.version of the cluster", "3.9.2",
        cluster({"broker-2": Node(2, port=19093, kafka="3.7.2")}),
        SECOND_IS_REFUSED,
    ),
    "trouble-no-directories": Scenario(
        "broker 2 is so old that it names no log directories, and does not know the error code of the answer", "3.9.2",
        cluster({"broker-2": Node(2, port=19093, kafka="3.6.2")}),
        SECOND_IS_REFUSED,
    ),
    "trouble-stolen-directory": Scenario(
        "a log directory of broker 2 has the id of one of broker 1, as after a careless copy", "3.9.2", cluster(),
        (("copy_directory_id", "broker-1", "broker-2"), *SECOND_IS_REFUSED),
    ),
    "trouble-fast-restart": Scenario(
        "broker 1 crashes and is back before its session has ended", "3.9.2", cluster(),
        FIRST_STARTS + (("sleep", 2), ("kill", "broker-1"), ("start", "broker-1"), ("sleep", 2)),
    ),
    "trouble-clean-restart": Scenario(
        "broker 1 stops cleanly and is back before its session has ended", "4.4.0", cluster(),
        FIRST_STARTS + (("sleep", 2), ("stop", "broker-1"), ("start", "broker-1"), ("sleep", 2)),
    ),
    # Fetching needs the same right, and a broker that may not fetch ends at once. It gets to register only if it
    # remembers the leader and the controller is slow to answer.
    "trouble-no-authority": Scenario(
        "broker 2 has lost the right to ClusterAction while it was down", "4.4.0", cluster(),
        (
            ("start", CONTROLLER),
            ("start", "broker-1", "broker-2"),
            ("stop", "broker-2"),
            ("stop", CONTROLLER),
            ("configure", CONTROLLER, {"super.users": "User:controller;User:broker-1"}),
            ("start", CONTROLLER),
            ("sleep", 3),
            ("pause", CONTROLLER),
            ("launch", "broker-2"),
            ("wait", "broker-2", "is now STARTING"),
            ("sleep", 0.5),
            ("resume", CONTROLLER),
            ("sleep", 3),
        ),
        config=listener("SASL_PLAINTEXT", SASL, {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:controller;User:broker-1;User:broker-2",
        }),
        quotes=((CONTROLLER, "Denied.*request = Fetch"), ("broker-2", "cluster authorization error")),
    ),
}

# ------------------------------------------------------------------------------------------------ limits and names

HEAP = "-Xmx320m"
LARGEST_CAPTURE = 300_000  # bytes; tests read these files often, and git keeps every version of them
START_SECONDS, STOP_SECONDS = 90, 30

KAFKA = "org.apache.kafka:kafka_2.13:{version}"
LOG_BINDINGS = {  # what Kafka's start scripts add so that its log appears, by major version
    "3": "org.slf4j:slf4j-reload4j:1.7.36",
    "4": "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3",
}
TLS_AGENT = "name.neykov:extract-tls-secrets:4.0.0"  # a Java agent that writes a key log file

WIRESHARK_TOOLS = "install Wireshark's command line tools (Debian: apt install wireshark-common)"

STARTED = "Kafka Server started"

LOG4J = {"3": """\
log4j.rootLogger=INFO, file
log4j.logger.kafka.request.logger=DEBUG
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={log}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n
""", "4": """\
appender.file.type=File
appender.file.name=file
appender.file.fileName={log}
appender.file.layout.type=PatternLayout
appender.file.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=INFO
rootLogger.appenderRef.file.ref=file
logger.requests.name=kafka.request.logger
logger.requests.level=DEBUG
"""}

POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>recording</groupId><artifactId>recording</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>{dependencies}</dependencies>
</project>
"""

POM_DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


class Trouble(Exception):
    """Something that the person at the keyboard can mend; the text says how."""


def say(text):
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


def kafka_uuid():
    """A random id in Kafka's text form, which never begins with "-"."""
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        pass
    return text


def tool(name, remedy):
    """The path of a program, or Trouble with the remedy."""
    if (path := shutil.which(name)) is None:
        raise Trouble(f"{name} is not on the PATH: {remedy}")
    return path


def java_tool(name):
    """The path of a program of the JDK: of JAVA_HOME if that is set."""
    found = shutil.which(name, path=Path(os.environ.get("JAVA_HOME", "none")) / "bin")
    return found or tool(name, "install a JDK, 17 for example, or set JAVA_HOME")


def run(command, what):
    """Run a helper to its end; its output is shown only if it fails."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    if done.returncode:
        raise Trouble(f"{what} failed, {Path(command[0]).name} said:\n{done.stdout.strip()[-3000:]}")


# ------------------------------------------------------------------------------------------------------ Kafka's jars


class Releases:
    """The jars of each Kafka version: of an unpacked Kafka where one was named, else from Maven."""

    def __init__(self, homes, folder):
        self.folder = folder
        self.found = {}  # major.minor -> (version, class path)
        for home in homes:
            jars = list(Path(home).glob("libs/kafka_2.*-[0-9]*.[0-9].jar"))
            if not jars:
                raise Trouble(f"{home} is not an unpacked Kafka: it has no libs/kafka_2.13-VERSION.jar")
            version = jars[0].stem.split("-")[1]
            self.found[minor(version)] = version, str(Path(home) / "libs" / "*")

    def get(self, wanted):
        """(version, class path); an unpacked Kafka serves every version with its major and minor number."""
        if minor(wanted) not in self.found:
            say(f"Kafka {wanted} from Maven")
            self.found[minor(wanted)] = wanted, self.resolve(wanted)
        return self.found[minor(wanted)]

    def resolve(self, version):
        mvn = tool("mvn", f"install Maven, or name an unpacked Kafka {minor(version)} with --kafka-home")
        artifacts = KAFKA.format(version=version), LOG_BINDINGS[major(version)]
        pom, path = self.folder / f"pom-{version}.xml", self.folder / f"classpath-{version}.txt"
        pom.write_text(POM.format(dependencies="".join(POM_DEPENDENCY.format(*a.split(":")) for a in artifacts)))
        goal = ["dependency:build-classpath", f"-Dmdep.outputFile={path}"]
        run([mvn, "-q", "-B", "-f", pom, *goal], f"finding Kafka {version}")
        return path.read_text().strip()

    def tls_agent(self):
        mvn = tool("mvn", "install Maven, or name the jar of extract-tls-secrets with --tls-agent")
        goal = ["dependency:copy", f"-Dartifact={TLS_AGENT}", f"-DoutputDirectory={self.folder}"]
        run([mvn, "-q", "-B", *goal], f"finding {TLS_AGENT}")
        return next(self.folder.glob("extract-tls-secrets-*.jar"))


def minor(version):
    return ".".join(version.split(".")[:2])


def major(version):
    return version.split(".")[0]


# ------------------------------------------------------------------------------------------------------- the packets


def capture_command(port):
    """A command that writes a pcap of the loopback interface to its standard output, and what it says once it runs."""
    loopback = "lo0" if sys.platform == "darwin" else "lo"
    what = f"tcp port {port}"
    if dumpcap := shutil.which("dumpcap"):
        return [dumpcap, "-q", "-i", loopback, "-P", "-w", "-", "-f", what], "File:"
    tcpdump = tool("tcpdump", f"install it, or for dumpcap {WIRESHARK_TOOLS}")
    return [tcpdump, "-i", loopback, "-U", "-w", "-", what], "listening on"


@contextlib.contextmanager
def capturing(port, path):
    """Capture the port's packets into the file while the block runs."""
    command, ready = capture_command(port)
    messages = path.with_suffix(".messages")
    with open(path, "wb") as packets, open(messages, "wb") as errors:
        process = subprocess.Popen(command, stdout=packets, stderr=errors, start_new_session=True)
    try:
        while ready not in messages.read_text(errors="replace"):
            if process.poll() is not None:
                raise Trouble(
                    f"{Path(command[0]).name} cannot capture:\n{messages.read_text(errors='replace').strip()}\n"
                    "Run as root, or give the program the right: setcap cap_net_raw,cap_net_admin+ep on it, "
                    "or the group wireshark (Debian: dpkg-reconfigure wireshark-common)"
                )
            time.sleep(0.05)
        yield
        time.sleep(1.5)  # the last packets are on their way from the kernel
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.wait(STOP_SECONDS)


def add_secrets(packets, secrets, result):
    """A pcapng with the packets and the TLS secrets that decrypt them."""
    editcap = tool("editcap", WIRESHARK_TOOLS)
    run([editcap, "-F", "pcapng", "--inject-secrets", f"tls,{secrets}", packets, result], "adding the TLS secrets")


# -------------------------------------------------------------------------------------------------------- processes


class Process:
    """A node of a run: its folder, its log, and its Java process while it runs."""

    def __init__(self, name, node, run_):
        self.name, self.node, self.run = name, node, run_
        self.version, self.classpath = run_.releases.get(node.kafka or run_.scenario.kafka)
        self.folder = run_.folder / name
        self.folder.mkdir()
        self.log, self.since, self.java = self.folder / "kafka.log", 0, None
        self.log.touch()
        self.log_dirs = [self.folder / f"data-{i + 1}" for i in range(node.log_dirs)]
        (self.folder / "log4j.properties").write_text(LOG4J[major(self.version)].format(log=self.log))
        self.configure({})

    def configure(self, more):
        """Write the node's configuration, with these additions."""
        (self.folder / "server.properties").write_text(self.properties(more))

    def properties(self, more):
        node, values = self.node, self.run.values | {
            "name": self.name, "id": self.node.id, "port": self.node.port, "external_port": self.node.port + 10_000,
        }
        config = {"process.roles": node.role, "node.id": node.id, "log.dirs": ",".join(map(str, self.log_dirs))}
        for part in COMMON, ROLES[node.role], self.run.scenario.config, node.config, more:
            config |= {key: value.format_map(values) for key, value in part.items()}
        return "".join(f"{key}={value}\n" for key, value in config.items() if value)

    def command(self, main, *arguments):
        option = "log4j.configuration" if major(self.version) == "3" else "log4j2.configurationFile"
        options = [HEAP, f"-D{option}=file:{self.folder / 'log4j.properties'}", "-cp", self.classpath]
        if self.run.agent and self.node.role == CONTROLLER:
            options.append(f"-javaagent:{self.run.agent}={self.run.secrets}")
        return [java_tool("java"), *options, main, *map(str, arguments)]

    def format(self):
        """Give the node its empty storage."""
        cluster_id = kafka_uuid() if self.node.foreign else self.run.cluster_id
        more = self.run.scenario.format.get(self.node.role, ())
        arguments = "format", "-t", cluster_id, "-c", self.folder / "server.properties", *more
        run(self.command("kafka.tools.StorageTool", *arguments), f"formatting the storage of {self.name}")

    def start(self):
        self.since = self.log.stat().st_size
        with open(self.folder / "console.log", "ab") as console:
            self.java = subprocess.Popen(
                self.command("kafka.Kafka", self.folder / "server.properties"),
                stdout=console, stderr=console, stdin=subprocess.DEVNULL, start_new_session=True, cwd=self.folder,
            )

    def stop(self, signal_=signal.SIGTERM):
        if self.running():
            self.java.send_signal(signal_)

    def running(self):
        return self.java is not None and self.java.poll() is None

    def gone(self):
        """Wait for the end of the process; kill it if the end does not come."""
        if self.java is not None:
            try:
                self.java.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                say(f"  {self.name} does not stop: killed")
                self.java.kill()
                self.java.wait()

    def fresh_log(self):
        """What the node has logged since it was last started."""
        with open(self.log, "rb") as log:
            log.seek(self.since)
            return log.read().decode(errors="replace")

    def wait(self, pattern, times=1):
        """Wait until the log holds the pattern so many times."""
        deadline = time.monotonic() + START_SECONDS
        while len(re.findall(pattern, text := self.fresh_log())) < times:
            if not self.running() or time.monotonic() > deadline:
                why = "took too long" if self.running() else "ended"
                end = ((self.folder / "console.log").read_text(errors="replace") + text)[-3000:]
                raise Trouble(f"{self.name} {why} before {pattern!r} was in its log; the end of it:\n{end}")
            time.sleep(0.1)


class Run:
    """One scenario on its way: its processes and the verbs of its steps."""

    def __init__(self, scenario, releases, folder, port, agent):
        self.scenario, self.releases, self.folder, self.agent = scenario, releases, folder, agent
        self.cluster_id, self.secrets = kafka_uuid(), folder / "secrets.txt"
        controller = scenario.nodes[CONTROLLER]
        self.values = {"controller_id": controller.id, "controller_port": port, "keys": folder / "keys.p12"}
        if scenario.tls:
            self.make_keys()
        self.processes = {name: Process(name, node, self) for name, node in scenario.nodes.items()}

    def make_keys(self):
        """A key store with a key of its own making, which also serves as the trust store."""
        run([
            java_tool("keytool"), "-genkeypair", "-alias", "kraft", "-keyalg", "RSA", "-keysize", "2048",
            "-validity", "36500", "-dname", "CN=kraft.example.test", "-ext", "SAN=ip:127.0.0.1", "-storetype", "PKCS12",
            "-keystore", self.values["keys"], "-storepass", PASSWORD,
        ], "making a TLS key")

    def go(self):
        """All steps, then a clean stop, brokers first. Whatever happens, no process stays behind."""
        try:
            for verb, *arguments in self.scenario.steps:
                say("  " + " ".join(map(str, [verb, *arguments])))
                getattr(self, verb)(*arguments)
            self.stop(*(name for name in self.processes if name != CONTROLLER))
            self.stop(CONTROLLER)
        finally:
            self.kill(*self.processes)

    def launch(self, *names):
        """Start the nodes and go on at once."""
        for name in names:
            self.processes[name].start()

    def start(self, *names):
        """Start the nodes and wait until they serve."""
        self.launch(*names)
        for name in names:
            self.processes[name].wait(STARTED)

    def wait(self, name, pattern, times=1):
        self.processes[name].wait(pattern, times)

    def pause(self, name):
        """Let the node do nothing for a while, as a long garbage collection would."""
        self.processes[name].stop(signal.SIGSTOP)

    def resume(self, name):
        self.processes[name].stop(signal.SIGCONT)

    def configure(self, name, more):
        """Change the configuration that the node has at its next start."""
        self.processes[name].configure(more)

    def copy_directory_id(self, source, target):
        """Give the target's first log directory the id of the source's first."""
        properties = [self.processes[name].log_dirs[0] / "meta.properties" for name in (source, target)]
        directory_id = re.search("^directory.id=.*$", properties[0].read_text(), re.MULTILINE).group()
        properties[1].write_text(re.sub("(?m)^directory.id=.*$", directory_id, properties[1].read_text()))

    def format_anew(self, name):
        """Format the node's storage as that of a new cluster."""
        self.cluster_id = kafka_uuid()
        for folder in self.processes[name].log_dirs:
            shutil.rmtree(folder)
        self.processes[name].format()

    def sleep(self, seconds):
        time.sleep(seconds)

    def stop(self, *names):
        for name in names:
            self.processes[name].stop()
        for name in names:
            self.processes[name].gone()

    def kill(self, *names):
        """End the nodes at once, as a crash would."""
        for name in names:
            self.processes[name].stop(signal.SIGKILL)
        for name in names:
            self.processes[name].gone()


# ------------------------------------------------------------------------------------------------------------ facts

REQUEST_LOG = "Completed request:"
REASON = re.compile("registerBroker: event failed|Denied .* request = BrokerRegistration")


def facts(run_):
    """The registrations of the run in the order in which the controller answered them, each with its evidence."""
    controller = run_.processes[CONTROLLER].log.read_text(errors="replace").splitlines()
    logs = {name: process.log.read_text(errors="replace").splitlines() for name, process in run_.processes.items()}
    registrations, tries = [], {}
    for number, line in enumerate(controller):
        if (logged := logged_registration(line)) is None:
            continue
        incarnation = logged["request"]["incarnationId"]
        tries[incarnation] = tries.get(incarnation, 0) + 1
        logged["evidence"] = (
            {"request": quote(CONTROLLER, line)}
            | broker_evidence(logs, logged["request"], tries[incarnation])
            | controller_evidence(controller, number, logged)
        )
        registrations.append(logged)
    return registrations


def logged_registration(line):
    """What a line of the controller's request log tells, if it tells of a registration. Names are Kafka's."""
    if REQUEST_LOG not in line or '"requestApiKey":62,' not in line:
        return None
    entry, _ = json.JSONDecoder().raw_decode(line[line.index(REQUEST_LOG) + len(REQUEST_LOG):])
    header = entry["requestHeader"]
    return {
        "client_port": int(re.match(r".*-.*:(\d+)-", entry["connection"]).group(1)),
        "correlation_id": header["correlationId"],
        "client_id": header["clientId"],
        "api_version": header["requestApiVersion"],
        "request": entry["request"],
        "response": entry["response"],
    }


def broker_evidence(logs, request, nth):
    """The broker's own words: its incarnation, and the outcome of its nth try."""
    for name, lines in logs.items():
        starts = [i for i, line in enumerate(lines) if f"Incarnation {request['incarnationId']} of broker" in line]
        if starts:
            outcome = re.compile(rf"(Successfully registered|Unable to register) broker {request['brokerId']}\b")
            outcomes = [line for line in lines[starts[0]:] if outcome.search(line)]
            return {"incarnation": quote(name, lines[starts[0]])} | (
                {"outcome": quote(name, outcomes[nth - 1])} if len(outcomes) >= nth else {}
            )
    return {}


def controller_evidence(lines, number, logged):
    """What the controller did before it logged the answer: the record it wrote, or why it refused."""
    if logged["response"]["errorCode"]:
        what, wanted = "reason", REASON
    else:
        epoch = logged["response"]["brokerEpoch"]
        incarnation = re.escape(logged["request"]["incarnationId"])
        what, wanted = "record", re.compile(rf"RegisterBrokerRecord\(.*{incarnation}, brokerEpoch={epoch},")
    for line in reversed(lines[:number]):
        if REQUEST_LOG not in line and wanted.search(line):
            return {what: quote(CONTROLLER, line)}
    return {}


def quotes(run_):
    """The further lines that the scenario wants, each the first of its kind."""
    found = []
    for node, pattern in run_.scenario.quotes:
        lines = run_.processes[node].log.read_text(errors="replace").splitlines()
        if (line := next(filter(re.compile(pattern).search, lines), None)) is None:
            raise Trouble(f"the log of {node} has no line with {pattern!r}")
        found.append(quote(node, line))
    return found


def quote(node, line):
    return {"log": node, "line": line}


# ------------------------------------------------------------------------------------------------------------- main


def record(name, scenario, releases, folder, arguments):
    """Run one scenario in the folder and put its two files in place."""
    say(f"{name}: {scenario.about}")
    agent = (arguments.tls_agent or releases.tls_agent()) if scenario.tls else None
    ports_must_be_free(scenario, arguments.port)
    run_ = Run(scenario, releases, folder, arguments.port, agent)
    for process in run_.processes.values():
        process.format()
    packets = folder / "packets.pcap"
    with capturing(arguments.port, packets):
        run_.go()
    result = arguments.into / f"{name}.pcap"
    if scenario.tls:
        result, plain = result.with_suffix(".pcapng"), packets
        add_secrets(plain, run_.secrets, packets := folder / "packets.pcapng")
    told = {
        "capture": result.name,
        "about": scenario.about,
        "kafka": {name: process.version for name, process in run_.processes.items()},
        "controller_port": arguments.port,
        "cluster_id": run_.cluster_id,
        "registrations": facts(run_),
        "quotes": quotes(run_),
    }
    if (size := packets.stat().st_size) > LARGEST_CAPTURE:
        raise Trouble(f"{name}: {size} bytes are too much for a test capture: shorten its steps")
    shutil.copyfile(packets, result)
    result.with_name(f"{name}.log.json").write_text(json.dumps(told, indent=1, ensure_ascii=False) + "\n")
    say(f"  {result.name}: {size} bytes, {len(told['registrations'])} registrations")


def check_the_machine(names, port, work):
    """Find out what is missing now rather than after minutes."""
    java_tool("java")
    if any(SCENARIOS[name].tls for name in names):
        tool("editcap", WIRESHARK_TOOLS)
    with capturing(port, work / "trial.pcap"):
        pass


def ports_must_be_free(scenario, controller_port):
    brokers = [node.port for node in scenario.nodes.values() if node.port]
    for port in {controller_port, *brokers, *(port + 10_000 for port in brokers)}:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError as error:
                remedy = "stop what listens there, or choose another with --port"
                raise Trouble(f"port {port} is taken ({error.strerror}): {remedy}") from error


def arguments_of(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("scenarios", nargs="*", metavar="SCENARIO", help="what to record (default: everything)")
    add("--list", action="store_true", help="tell the scenarios and end")
    add("--into", type=Path, metavar="DIR", default=Path(__file__).resolve().parent / "ok",
        help="folder for the results (default: ok/ beside this script)")
    add("--port", type=int, default=9093, help="the controller's port (default: 9093)")
    add("--kafka-home", action="append", default=[], metavar="DIR",
        help="an unpacked Kafka, used in place of Maven where a scenario wants its version; may be given several times")
    add("--tls-agent", type=Path, metavar="JAR", help="the jar of extract-tls-secrets, used in place of Maven")
    add("--keep", action="store_true", help="keep the folder with Kafka's configuration and logs, and name it")
    arguments = parser.parse_args(argv)
    for name in arguments.scenarios:
        if name not in SCENARIOS:
            parser.error(f"no scenario {name}; --list tells them")
    return arguments


def main(argv=None):
    arguments = arguments_of(argv)
    if arguments.list:
        for name, scenario in SCENARIOS.items():
            print(f"{name:24} Kafka {scenario.kafka}: {scenario.about}")
        return
    names = arguments.scenarios or list(SCENARIOS)
    arguments.into.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    work = Path(tempfile.mkdtemp(prefix="kraft-recording-"))
    try:
        releases = Releases(arguments.kafka_home, work)
        check_the_machine(names, arguments.port, work)
        for name in names:
            (work / name).mkdir()
            record(name, SCENARIOS[name], releases, work / name, arguments)
    finally:
        if arguments.keep:
            say(f"configuration and logs are in {work}")
        else:
            shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    try:
        main()
    except Trouble as trouble:
        sys.exit(f"record.py: {trouble}")
    except KeyboardInterrupt:
        sys.exit("record.py: stopped; no file was changed by the scenario under way")
