"""ROS interface of the memory: lifecycle node, services, topics, parameters and messages.

Nothing below this package imports rclpy, tf2 or a message. `node` opens a `session` at configure, which owns
memory, worker pools (`runtime`), `services`, `perception` and `publishers`; `convert` maps messages to the
model, and `rclpy_compat` holds everything that leans on private parts of rclpy.
"""
