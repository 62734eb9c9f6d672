# Builds against the ROS 2 wheels from PyPI. Passed as -DCMAKE_PROJECT_INCLUDE=<this file> by ./dev;
# a ROS 2 distribution never sees it.

# 1. The interpreter is the one that has the wheels; their share/ and lib/ lie under its prefix.
if(NOT Python3_EXECUTABLE)
  find_package(Python3 REQUIRED COMPONENTS Interpreter)
endif()
execute_process(
  COMMAND "${Python3_EXECUTABLE}" -c
    "import ament_package, pathlib; print(pathlib.Path(ament_package.__file__).resolve().parents[4])"
  OUTPUT_VARIABLE _ros_wheels_prefix
  OUTPUT_STRIP_TRAILING_WHITESPACE
  COMMAND_ERROR_IS_FATAL ANY
)
list(PREPEND CMAKE_PREFIX_PATH "${_ros_wheels_prefix}")
if(NOT "$ENV{AMENT_PREFIX_PATH}" MATCHES "(^|:)${_ros_wheels_prefix}(:|$)")
  set(ENV{AMENT_PREFIX_PATH} "${_ros_wheels_prefix}:$ENV{AMENT_PREFIX_PATH}")
endif()

# 2. The wheels export include paths of the machine that built them: drop those that do not exist here.
function(_ros_wheels_drop_missing_includes)
  get_property(_targets DIRECTORY PROPERTY IMPORTED_TARGETS)
  foreach(_target IN LISTS _targets)
    get_target_property(_dirs ${_target} INTERFACE_INCLUDE_DIRECTORIES)
    if(_dirs)
      set(_kept "")
      foreach(_dir IN LISTS _dirs)
        if(NOT IS_ABSOLUTE "${_dir}" OR EXISTS "${_dir}")
          list(APPEND _kept "${_dir}")
        endif()
      endforeach()
      set_target_properties(${_target} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${_kept}")
    endif()
  endforeach()
  # 3. CMake refuses to export an include path inside the source tree (numpy in ./.venv).
  if(TARGET ${PROJECT_NAME}__rosidl_generator_py)
    set_target_properties(${PROJECT_NAME}__rosidl_generator_py PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "")
  endif()
endfunction()
cmake_language(DEFER CALL _ros_wheels_drop_missing_includes)

# 4. Python needs only the C code of the interfaces; the C++ code is more than half of the compile time.
option(PYTHON_INTERFACES_ONLY "Leave out the C++ code of the interfaces" OFF)
if(PYTHON_INTERFACES_ONLY)
  find_package(ament_cmake_core REQUIRED)
  macro(ament_register_extension extension_point package_name)
    if(NOT "${extension_point};${package_name}" MATCHES "^rosidl_generate_idl_interfaces;.*_cpp$")
      _ament_register_extension(${extension_point} ${package_name} ${ARGN})
    endif()
  endmacro()
endif()
