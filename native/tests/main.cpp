// The C++ tests. Usage: tombola_tests VECTORS, the folder of the golden vectors that the Python tests read too.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <iostream>
#include <string>

std::string vectors_folder;

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: tombola_tests VECTORS [doctest options]\n";
    return 2;
  }
  vectors_folder = argv[1];
  doctest::Context context(argc - 1, argv + 1);
  return context.run();
}
