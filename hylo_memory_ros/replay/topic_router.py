"""Router of the topics of a bag to transforms, the clock and the inputs, by the names a node would use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from hylo_memory_ros.errors import ConfigurationError, InvalidRequestError
from hylo_memory_ros.parameters import NodeConfig
from hylo_memory_ros.perception import InputSettings, LandmarkPipeline, Message
from hylo_memory_ros.perception.ingestion.decoders import (
    DECODERS,
    Decoder,
    UnusableMessageError,
    decode_clock,
    decode_localization,
    decode_transforms,
)
from hylo_memory_ros.replay.bag import BagClock
from hylo_memory_ros.transforms import TransformBuffer


class TopicNames:
    """Resolves and remaps the names of topics.

    Parameters
    ----------
    node : str
        Full name of the node.
    remaps : iterable of str
        ``from:=to`` each, as ROS takes them.

    Raises
    ------
    ConfigurationError
        A remap is malformed.

    Examples
    --------
    >>> names = TopicNames('/robot/hylo_memory', ['/robot/tf:=/tf'])
    >>> [names.full(name) for name in ('detections', '/scan', '~/seen', 'tf')]
    ['/robot/detections', '/scan', '/robot/hylo_memory/seen', '/tf']
    """

    def __init__(self, node: str = '/hylo_memory', remaps: Iterable[str] = ()) -> None:
        if not node.startswith('/') or node.endswith('/'):
            raise ConfigurationError(
                f'node: expected a full name such as /hylo_memory, got {node!r}', node=node
            )
        self._node = node
        self._remaps: dict[str, str] = {}
        for remap in remaps:
            old, found, new = remap.partition(':=')
            if not (found and old and new):
                raise ConfigurationError(f'remap: expected from:=to, got {remap!r}', remap=remap)
            self._remaps[self._resolve(old)] = self._resolve(new)

    def full(self, name: str) -> str:
        """Return the full name of a topic."""
        full = self._resolve(name)
        return self._remaps.get(full, full)

    def _resolve(self, name: str) -> str:
        if name.startswith('/'):
            return name
        if name.startswith('~'):
            return f'{self._node}/{name[1:].lstrip("/")}'
        return f'{self._node.rpartition("/")[0]}/{name}'


CLOCK = '/clock'
"""The topic of the time, whose name is the same for every node."""
_TF_TYPE, _CLOCK_TYPE = 'tf2_msgs/msg/TFMessage', 'rosgraph_msgs/msg/Clock'
_LOCALIZED_TYPE = 'geometry_msgs/msg/PoseWithCovarianceStamped'

Take = Callable[[bytes], None]


class TopicRouter:
    """Hands the messages of a bag to the consumers of their topics.

    Parameters
    ----------
    config : NodeConfig
        The inputs.
    names : TopicNames
        Names of their topics.
    topics : mapping
        Type of each topic in the bag.
    transforms, pipeline, clock
        Consumers of the messages.

    Raises
    ------
    ConfigurationError
        An input is of a type without a decoder, or the bag has messages for no input.
    """

    def __init__(
        self,
        config: NodeConfig,
        names: TopicNames,
        topics: Mapping[str, str],
        transforms: TransformBuffer,
        pipeline: LandmarkPipeline,
        clock: BagClock,
    ) -> None:
        self._transforms, self._pipeline, self._clock = transforms, pipeline, clock
        self._global_frame = config.global_frame
        self.takers: dict[str, list[Take]] = {}
        """Consumers of the messages of a topic."""
        self.missing: dict[str, str] = {}
        """Why an input gets nothing, by its name."""
        self.malformed: Counter[str] = Counter()
        """Messages on tf and clock that are none, by topic."""
        self._topics = topics
        tf = [(names.full('tf'), False), (names.full('tf_static'), True)]
        self._has_tf = any(topics.get(topic) == _TF_TYPE for topic, _ in tf)
        for topic, static in tf:
            self._serve(topic, _TF_TYPE, self._transform_taker(topic, static=static))
        self.has_clock = self._serve(CLOCK, _CLOCK_TYPE, self._take_clock)
        if config.localization_topic:
            topic = names.full(config.localization_topic)
            self._serve(topic, _LOCALIZED_TYPE, self._localization_taker(topic))
        for source in config.inputs:
            self._serve_input(source, names.full(source.topic))
        # One missing input is common and reported; none at all is a mistake in topics or remaps.
        if len(self.missing) == len(config.inputs):
            reasons = '; '.join(self.missing.values()) or 'the parameters declare none'
            raise ConfigurationError(f'inputs: the bag has nothing for any of them: {reasons}')

    @property
    def skipped(self) -> dict[str, str]:
        """Topics without a consumer, with their types."""
        return {topic: kind for topic, kind in self._topics.items() if topic not in self.takers}

    def take(self, topic: str, data: bytes) -> None:
        """Hand one message to its consumers."""
        for take in self.takers[topic]:
            take(data)

    def _serve(self, topic: str, kind: str, take: Take) -> bool:
        found = self._topics.get(topic) == kind
        if found:
            self.takers.setdefault(topic, []).append(take)
        return found

    def _serve_input(self, source: InputSettings, topic: str) -> None:
        name, kind = source.name, source.type
        if kind not in DECODERS:
            raise ConfigurationError(
                f'input.{name}.type: expected one of {", ".join(sorted(DECODERS))}, got {kind!r}',
                parameter=f'input.{name}.type',
            )
        if not self._serve(topic, kind, self._input_taker(name, DECODERS[kind]())):
            there = self._topics.get(topic)
            reason = f'{topic} is {there} there, not {kind}' if there else f'nothing on {topic}'
            self.missing[name] = f'input {name}: {reason}'

    def _transform_taker(self, topic: str, *, static: bool) -> Take:
        def take(data: bytes) -> None:
            try:
                transforms = decode_transforms(data)
            except ValueError:
                self.malformed[topic] += 1
                return
            self._transforms.set_transforms(transforms, static=static)

        return take

    def _take_clock(self, data: bytes) -> None:
        try:
            self._clock.now_ns = decode_clock(data)
        except ValueError:
            self.malformed[CLOCK] += 1

    def _localization_taker(self, topic: str) -> Take:
        def take(data: bytes) -> None:
            try:
                fix = decode_localization(data)
            except ValueError:
                self.malformed[topic] += 1
                return
            if fix.stamp_ns and fix.frame_id.removeprefix('/') == self._global_frame:
                self._pipeline.note_localization(fix.stamp_ns, fix.covariance)

        return take

    def _input_taker(self, name: str, read: Decoder) -> Take:
        def take(data: bytes) -> None:
            try:
                reading = read(data, name)
            except ValueError as exc:
                reason = exc.reason if isinstance(exc, UnusableMessageError) else 'malformed'
                self._pipeline.note_refused(name, reason)
                return
            for reason, count in reading.refused.items():
                self._pipeline.note_refused(name, reason, count)
            for message in reading.messages:
                self._refuse_without_tf(message)
                self._pipeline.offer(message)

        return take

    def _refuse_without_tf(self, message: Message) -> None:
        # Without tf every message would wait for a transform until the end, in silence.
        if self._has_tf or message.deletion is not None:
            return
        frame_id = message.frame_id.removeprefix('/')
        if frame_id != self._global_frame or message.detections.frames:
            raise InvalidRequestError(
                f'input {message.input}: its messages are in the frame {frame_id!r}, and the bag has no '
                f'/tf and no /tf_static that would bring them into {self._global_frame!r}',
                input=message.input,
                frame_id=frame_id,
            )
