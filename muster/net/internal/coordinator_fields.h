// The fields of the coordinator's messages, as they travel. Whoever adds, removes or moves one
// raises kProtocolVersion. Values.
#pragma once

#include <tuple>

#include "muster/net/coordinator_messages.h"
#include "muster/net/message_fields.h"

namespace muster::inline v0_1::net {

template <>
inline constexpr plan::Phase kLastOf<plan::Phase> = plan::Phase::kDone;
template <>
inline constexpr plan::Verdict::State kLastOf<plan::Verdict::State> =
    plan::Verdict::State::kRefused;
template <>
inline constexpr StoreOperation kLastOf<StoreOperation> = StoreOperation::kWait;

template <>
inline constexpr auto kFieldsOf<plan::Caller> = std::tuple(&plan::Caller::task,
                                                           &plan::Caller::incarnation);

template <>
inline constexpr auto kFieldsOf<JoinRequest> = std::tuple(&JoinRequest::who, &JoinRequest::rank,
                                                          &JoinRequest::world_size,
                                                          &JoinRequest::addresses,
                                                          &JoinRequest::wait_seconds);

template <>
inline constexpr auto kFieldsOf<BeatRequest> = std::tuple(&BeatRequest::who, &BeatRequest::phase,
                                                          &BeatRequest::step);

template <>
inline constexpr auto kFieldsOf<ModelRequest> = std::tuple(&ModelRequest::who,
                                                           &ModelRequest::signature);

template <>
inline constexpr auto kFieldsOf<BarrierRequest> = std::tuple(&BarrierRequest::who,
                                                             &BarrierRequest::name,
                                                             &BarrierRequest::generation,
                                                             &BarrierRequest::wait_seconds);

template <>
inline constexpr auto kFieldsOf<StoreRequest> =
    std::tuple(&StoreRequest::who, &StoreRequest::operation, &StoreRequest::keys,
               &StoreRequest::value, &StoreRequest::amount, &StoreRequest::wait_seconds);

template <>
inline constexpr auto kFieldsOf<FailRequest> = std::tuple(&FailRequest::who, &FailRequest::kind,
                                                          &FailRequest::reason, &FailRequest::rank,
                                                          &FailRequest::world_size,
                                                          &FailRequest::addresses);

template <>
inline constexpr auto kFieldsOf<GoodbyeRequest> = std::tuple(&GoodbyeRequest::who,
                                                             &GoodbyeRequest::leaving);

template <>
inline constexpr auto kFieldsOf<plan::Failure> =
    std::tuple(&plan::Failure::task, &plan::Failure::rank, &plan::Failure::kind,
               &plan::Failure::reason, &plan::Failure::step, &plan::Failure::phase);

template <>
inline constexpr auto kFieldsOf<plan::MissingTask> = std::tuple(&plan::MissingTask::task,
                                                                &plan::MissingTask::address,
                                                                &plan::MissingTask::seconds,
                                                                &plan::MissingTask::where,
                                                                &plan::MissingTask::busy);

template <>
inline constexpr auto kFieldsOf<plan::Verdict> = std::tuple(&plan::Verdict::state,
                                                            &plan::Verdict::failure,
                                                            &plan::Verdict::refusal,
                                                            &plan::Verdict::missing);

template <>
inline constexpr auto kFieldsOf<Reply> = std::tuple(&Reply::verdict, &Reply::epoch,
                                                    &Reply::all_done, &Reply::values,
                                                    &Reply::number);

}  // namespace muster::inline v0_1::net
