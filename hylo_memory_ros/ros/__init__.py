"""The ROS face: messages, parameters, servers and the lifecycle node around a `MemoryService`.

Nothing below this package imports rclpy, tf2 or a message.

=================  ===================================================================
`settings`         what can be configured, typed
`parameters`       the same as ROS parameters, declared once
`qos`              named quality-of-service profiles
`codes`            errors to ``error_code``, the only place
`items`            `MemoryItem` to and from its message
`filters`          `MemoryFilter.msg` to `MemoryQuery`
`answers`          hits, versions and events to messages, capped in size
`blank`            messages made without their constructors
`cdr`              `Detection3DArray` read from its bytes
`executor`         the executor that only moves messages, and survives what it cannot read
`workers`          one writer, a few readers; what coroutines await
`placement`        poses into the global frame
`transforms`       where transforms come from
`guard`            the outermost guard of every service
`servers`          the services
`maintenance`      the action
`inputs`           perception subscribers
`events`, `status`, `markers`  what is published
`session`          what configure opens and cleanup closes
`node`, `main`     the lifecycle node and its process
=================  ===================================================================
"""
